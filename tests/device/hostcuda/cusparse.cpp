// cuSPARSE, as much of it as the product of a CSR matrix and a dense one.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "fortran.h"

namespace {

enum Status { success = 0, not_supported = 10 };
enum IndexType { index_32 = 2 };
enum Order { by_columns = 1 };

struct Csr { int64_t rows, columns, entries; void *starts, *indices, *values; int starts_type, indices_type, base, type; };
struct Dense {
  int64_t rows, columns, ld;
  void* values;
  int type, order;
  int64_t at(int64_t i, int64_t j) const { return order == by_columns ? i + j * ld : i * ld + j; }
};

int handle_of_all;

int64_t index(const void* values, int type, int64_t i) {
  return type == index_32 ? static_cast<const int32_t*>(values)[i] : static_cast<const int64_t*>(values)[i];
}

// C = alpha op(A) op(B) + beta C.
template <class T>
void product(int ta, int tb, const T* alpha, const Csr& A, const Dense& B, const T* beta, const Dense& C) {
  T *a = static_cast<T*>(A.values), *b = static_cast<T*>(B.values), *c = static_cast<T*>(C.values);
  for (int64_t i = 0; i < C.rows; ++i)
    for (int64_t j = 0; j < C.columns; ++j) {
      T& entry = c[C.at(i, j)];
      entry = *beta == T(0) ? T(0) : *beta * entry;
    }
  std::vector<int64_t> rows(A.rows);
  std::iota(rows.begin(), rows.end(), 0);
  // NVIDIA, of a transposed A: "this routine may produce slightly different results during different runs"
  static std::mt19937 random(1);
  if (ta && hc_state.shuffled_sums) std::shuffle(rows.begin(), rows.end(), random);
  for (int64_t row : rows) {
    int64_t end = index(A.starts, A.starts_type, row + 1) - A.base;
    for (int64_t k = index(A.starts, A.starts_type, row) - A.base; k < end; ++k) {
      int64_t column = index(A.indices, A.indices_type, k) - A.base, i = ta ? column : row, l = ta ? row : column;
      T factor = *alpha * (ta == 2 ? conjugated(a[k]) : a[k]);
      for (int64_t j = 0; j < C.columns; ++j) {
        T other = b[tb ? B.at(j, l) : B.at(l, j)];
        c[C.at(i, j)] += factor * (tb == 2 ? conjugated(other) : other);
      }
    }
  }
}

}  // namespace

extern "C" {

int cusparseCreate(void** handle) { return *handle = &handle_of_all, success; }
int cusparseDestroy(void*) { return success; }
int cusparseSetStream(void*, void*) { return success; }
int cusparseGetVersion(void*, int* version) { return *version = HC_CUDA_VERSION, success; }
const char* cusparseGetErrorName(int) { return "CUSPARSE_ERROR"; }
const char* cusparseGetErrorString(int) { return "of the host device"; }
int cusparseCreateMatDescr(void** made) { return *made = &handle_of_all, success; }
int cusparseDestroyMatDescr(void*) { return success; }
int cusparseSetMatType(void*, int) { return success; }
int cusparseSetMatIndexBase(void*, int) { return success; }
int cusparseSetMatFillMode(void*, int) { return success; }
int cusparseSetMatDiagType(void*, int) { return success; }

int cusparseCreateCsr(Csr** made, int64_t rows, int64_t columns, int64_t entries, void* starts, void* indices,
                      void* values, int starts_type, int indices_type, int base, int type) {
  *made = new Csr{rows, columns, entries, starts, indices, values, starts_type, indices_type, base, type};
  return success;
}
int cusparseDestroySpMat(Csr* matrix) { return delete matrix, success; }
int cusparseCreateDnMat(Dense** made, int64_t rows, int64_t columns, int64_t ld, void* values, int type, int order) {
  return *made = new Dense{rows, columns, ld, values, type, order}, success;
}
int cusparseDestroyDnMat(Dense* matrix) { return delete matrix, success; }
int cusparseSpMM_bufferSize(void*, int, int, const void*, void*, void*, const void*, void*, int, int, size_t* size) {
  return *size = 1, success;
}
int cusparseSpMM(void*, int ta, int tb, const void* alpha, Csr* A, Dense* B, const void* beta, Dense* C, int type, int,
                 void*) {
  ++hc_state.libraries;
  if (!hc_state.executed) return success;
  return with_type(type, not_supported, [&](auto zero) {
    using T = decltype(zero);
    product<T>(ta, tb, static_cast<const T*>(alpha), *A, *B, static_cast<const T*>(beta), *C);
    return success;
  });
}

}  // extern "C"
