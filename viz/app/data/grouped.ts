/** Elements by the key of each, in the order of the first element of each key. */
export function grouped<Element, Key>(
  elements: readonly Element[],
  keyOf: (element: Element) => Key,
): Map<Key, Element[]> {
  const groups = new Map<Key, Element[]>();
  for (const element of elements) {
    const key = keyOf(element);
    const group = groups.get(key);
    if (group) group.push(element);
    else groups.set(key, [element]);
  }
  return groups;
}
