// Streams, events and graphs. Work is executed when the host waits for it, not when it is enqueued: a result that is read
// without waiting, or memory that is reused too early, shows as a wrong value. Streams that are not waited for do not advance.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace emulator {

/** Returns the CUresult of the work. */
using Work = std::function<int()>;

enum : int {
  ok = 0,
  invalidValue = 1,
  outOfMemory = 2,
  invalidHandle = 400,
  notFound = 500,
  notReady = 600,
  launchFailed = 719,
  captureUnsupported = 900,
  captureUnmatched = 903,
  captureImplicit = 906,
};

struct Graph {
  std::vector<Work> nodes;
};

struct Stream {
  std::deque<Work> queue;
  bool nonBlocking = false;
  std::shared_ptr<Graph> capture;
  bool relaxedCapture = false;
};

struct Event {
  /** Stream on which the event was last recorded. */
  Stream* stream = nullptr;
  /** Records that were enqueued and executed. */
  int enqueued = 0;
  int executed = 0;
  /** The last record was captured into a graph; such an event has no time. */
  bool captured = false;
  std::chrono::steady_clock::time_point time;
};

/** The first failure of executed work. As on a device, every later call returns it. */
inline int stickyError = ok;

/** Executes work of a stream until `isDone` returns true or the queue is empty. */
template <class IsDone>
int execute(Stream& stream, IsDone isDone) {
  while (!stream.queue.empty() && stickyError == ok && !isDone()) {
    Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (int code = work()) stickyError = code;
  }
  return stickyError;
}

inline int execute(Stream& stream) {
  return execute(stream, [] { return false; });
}

/** Executes the work before the `record`-th record of an event. */
inline int executeUntil(Event& event, int record) {
  if (event.executed >= record || !event.stream) return stickyError;
  return execute(*event.stream, [&] { return event.executed >= record; });
}

inline int enqueue(Stream& stream, Work work) {
  if (stickyError) return stickyError;
  if (stream.capture) {
    stream.capture->nodes.push_back(std::move(work));
    return ok;
  }
  stream.queue.push_back(std::move(work));
  return ok;
}

}  // namespace emulator
