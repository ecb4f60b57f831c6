// cuBLAS: matrix products as loops with float32 accumulation. Included by driver.cpp.
#pragma once

namespace {

enum : int { bfloat16 = 14, float32 = 0 };
enum : int { cublasInvalidValue = 7, cublasFailed = 13, cublasUnsupported = 15 };

struct Handle {
  Stream* stream = nullptr;
};

/** A column-major matrix, or its transpose. */
struct Matrix {
  const void* data;
  int type;
  int leading;
  bool transposed;

  float operator()(size_t row, size_t column) const {
    size_t i = transposed ? row * static_cast<size_t>(leading) + column : column * static_cast<size_t>(leading) + row;
    if (type == float32) return static_cast<const float*>(data)[i];
    return __uint_as_float(unsigned{static_cast<const unsigned short*>(data)[i]} << 16);
  }
};

unsigned short roundedToBfloat16(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

/** A matrix as floats, [columns][rows]. */
std::vector<float> expanded(const Matrix& matrix, size_t rows, size_t columns) {
  std::vector<float> out(rows * columns);
  for (size_t column = 0; column < columns; column++)
    for (size_t row = 0; row < rows; row++) out[column * rows + row] = matrix(row, column);
  return out;
}

/** One column of A·B, [m]; products in ascending order of the inner index. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx2", "default")))
#endif
void multiplyColumn(float* sums, const float* a, const float* b, size_t m, size_t k) {
  for (size_t i = 0; i < m; i++) sums[i] = 0;
  for (size_t inner = 0; inner < k; inner++) {
    float factor = b[inner];
    for (size_t i = 0; i < m; i++) sums[i] += factor * a[inner * m + i];
  }
}

}  // namespace

EXPORT int cublasCreate_v2(Handle** handle) {
  *handle = new Handle;
  return ok;
}
EXPORT int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return ok;
}
EXPORT int cublasGetVersion_v2(Handle*, int* version) {
  *version = 130000;
  return ok;
}
EXPORT int cublasSetStream_v2(Handle* handle, Stream* stream) {
  handle->stream = stream;
  return ok;
}
EXPORT int cublasSetWorkspace_v2(Handle*, void* workspace, size_t bytes) {
  return !bytes || isDevice(workspace, bytes) ? static_cast<int>(ok) : static_cast<int>(cublasInvalidValue);
}
EXPORT int cublasSetMathMode(Handle*, int) { return ok; }
EXPORT const char* cublasGetStatusString(int status) {
  return status == ok ? "success" : status == cublasInvalidValue ? "invalid value" : "failed";
}
EXPORT int cublasGemmEx(Handle* handle, int transposeA, int transposeB, int m, int n, int k, const float* alpha,
                        const void* a, int typeA, int leadingA, const void* b, int typeB, int leadingB,
                        const float* beta, void* c, int typeC, int leadingC, int, int) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  auto isKnown = [](int type) { return type == bfloat16 || type == float32; };
  if (!isKnown(typeA) || !isKnown(typeB) || !isKnown(typeC)) return cublasUnsupported;
  if (m <= 0 || n <= 0 || k <= 0 || leadingC < m || leadingA < (transposeA ? k : m) || leadingB < (transposeB ? n : k))
    return cublasInvalidValue;
  Matrix left = {a, typeA, leadingA, transposeA != 0}, right = {b, typeB, leadingB, transposeB != 0};
  Matrix old = {c, typeC, leadingC, false};
  float scale = *alpha, keep = *beta;
  int code = submit(handle->stream, [=] {
    size_t rows = static_cast<size_t>(m), columns = static_cast<size_t>(n), inner = static_cast<size_t>(k);
    std::vector<float> a = expanded(left, rows, inner), b = expanded(right, inner, columns), sums(rows);
    for (size_t column = 0; column < columns; column++) {
      multiplyColumn(sums.data(), a.data(), &b[column * inner], rows, inner);
      for (size_t i = 0; i < rows; i++) {
        float value = scale * sums[i] + (keep == 0 ? 0 : keep * old(i, column));
        size_t at = column * static_cast<size_t>(leadingC) + i;
        if (typeC == float32)
          static_cast<float*>(c)[at] = value;
        else
          static_cast<unsigned short*>(c)[at] = roundedToBfloat16(value);
      }
    }
    return static_cast<int>(ok);
  });
  return code ? static_cast<int>(cublasFailed) : static_cast<int>(ok);
}
