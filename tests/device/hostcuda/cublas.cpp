// cuBLAS, as much of it as CuPy's products, triangular solves and batched LU factors call.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "fortran.h"

namespace {

enum Status { success = 0, invalid_value = 7, not_supported = 15 };

std::unordered_map<std::string, void*> routines;
int math_mode, pointer_mode;

// Counts a call; whether it is to be executed.
bool called() { return ++hc_state.products, hc_state.executed; }

template <class T>
int gemm(int ta, int tb, int m, int n, int k, const T* alpha, const T* A, int lda, const T* B, int ldb, const T* beta,
         T* C, int ldc) {
  if (lda < std::max(1, ta ? k : m) || ldb < std::max(1, tb ? n : k) || ldc < std::max(1, m)) {
    fprintf(stderr, "hostcuda: gemm: a leading dimension is too small: m %d, n %d, k %d, lda %d, ldb %d, ldc %d\n", m, n,
            k, lda, ldb, ldc);
    return invalid_value;
  }
  char a = operation(ta), b = operation(tb);
  fortran<T>("gemm", &a, &b, &m, &n, &k, alpha, A, &lda, B, &ldb, beta, C, &ldc);
  return success;
}

}  // namespace

extern "C" void hc_set_fortran(const char* name, void* routine) { routines[name] = routine; }
extern "C" void* hc_fortran(const char* name) { return routines.at(name); }

#define PRODUCTS(L, T) \
  int cublas##L##gemm_v2(void*, int ta, int tb, int m, int n, int k, const T* alpha, const T* A, int lda, const T* B, \
                         int ldb, const T* beta, T* C, int ldc) { \
    return called() ? gemm(ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc) : success; \
  } \
  int cublas##L##gemmBatched(void*, int ta, int tb, int m, int n, int k, const T* alpha, const T** A, int lda, \
                             const T** B, int ldb, const T* beta, T** C, int ldc, int count) { \
    int status = success; \
    for (int i = 0, on = called(); i < count && on && !status; ++i) \
      status = gemm(ta, tb, m, n, k, alpha, A[i], lda, B[i], ldb, beta, C[i], ldc); \
    return status; \
  } \
  int cublas##L##gemmStridedBatched(void*, int ta, int tb, int m, int n, int k, const T* alpha, const T* A, int lda, \
                                    long long sa, const T* B, int ldb, long long sb, const T* beta, T* C, int ldc, \
                                    long long sc, int count) { \
    int status = success; \
    for (int i = 0, on = called(); i < count && on && !status; ++i) \
      status = gemm(ta, tb, m, n, k, alpha, A + i * sa, lda, B + i * sb, ldb, beta, C + i * sc, ldc); \
    return status; \
  } \
  int cublas##L##trsm_v2(void*, int side, int uplo, int trans, int diag, int m, int n, const T* alpha, const T* A, \
                         int lda, T* B, int ldb) { \
    char s = side ? 'R' : 'L', u = uplo ? 'U' : 'L', t = operation(trans), d = diag ? 'U' : 'N'; \
    if (called()) fortran<T>("trsm", &s, &u, &t, &d, &m, &n, alpha, A, &lda, B, &ldb); \
    return success; \
  } \
  int cublas##L##geam(void*, int ta, int tb, int m, int n, const T* alpha, const T* A, int lda, const T* beta, \
                      const T* B, int ldb, T* C, int ldc) { \
    auto at = [](const T* M, int ld, int t, int64_t i, int64_t j) { \
      return t == 2 ? conjugated(M[j + i * ld]) : t ? M[j + i * ld] : M[i + j * ld]; \
    }; \
    if (!called()) return success; \
    for (int j = 0; j < n; ++j) \
      for (int i = 0; i < m; ++i) \
        C[i + int64_t(j) * ldc] = (*alpha == T(0) ? T(0) : *alpha * at(A, lda, ta, i, j)) + \
                                  (*beta == T(0) ? T(0) : *beta * at(B, ldb, tb, i, j)); \
    return success; \
  } \
  int cublas##L##getrfBatched(void*, int n, T** A, int lda, int* pivots, int* info, int count) { \
    for (int i = 0, on = called(); i < count && on; ++i) \
      fortran<T>("getrf", &n, &n, A[i], &lda, pivots + i * n, info + i); \
    return success; \
  } \
  int cublas##L##getrsBatched(void*, int trans, int n, int columns, const T** A, int lda, const int* pivots, T** B, \
                              int ldb, int* info, int count) { \
    char t = operation(trans); \
    int ignored; \
    for (int i = 0, on = called(); i < count && on; ++i) \
      fortran<T>("getrs", &t, &n, &columns, A[i], &lda, pivots + i * n, B[i], &ldb, &ignored); \
    return *info = 0, success; \
  }

#define NORM(L, T) \
  int cublas##L##nrm2_v2(void*, int n, const T* x, int step, Type<T>::Real* result) { \
    long double sum = 0; \
    for (int64_t i = 0, on = called(); i < n && on; ++i) sum += std::norm(x[i * step]); \
    return *result = Type<T>::Real(sqrtl(sum)), success; \
  }

#define DOT(L, T, FIRST) \
  int cublas##L##_v2(void*, int n, const T* x, int step_x, const T* y, int step_y, T* result) { \
    T sum = 0; \
    for (int64_t i = 0, on = called(); i < n && on; ++i) sum += FIRST(x[i * step_x]) * y[i * step_y]; \
    return *result = sum, success; \
  }

extern "C" {

FOR_ALL_TYPES(PRODUCTS)
NORM(S, float) NORM(D, double) NORM(Sc, Complex) NORM(Dz, DoubleComplex)
DOT(Sdot, float, ) DOT(Ddot, double, ) DOT(Cdotu, Complex, ) DOT(Zdotu, DoubleComplex, )
DOT(Cdotc, Complex, conjugated) DOT(Zdotc, DoubleComplex, conjugated)

int cublasSgemmEx(void*, int ta, int tb, int m, int n, int k, const float* alpha, const void* A, int type_a, int lda,
                  const void* B, int type_b, int ldb, const float* beta, void* C, int type_c, int ldc) {
  if (type_a != type_float || type_b != type_float || type_c != type_float) return not_supported;
  auto [a, b, c] = std::tuple(static_cast<const float*>(A), static_cast<const float*>(B), static_cast<float*>(C));
  return called() ? gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) : success;
}
int cublasGemmStridedBatchedEx(void*, int ta, int tb, int m, int n, int k, const void* alpha, const void* A, int type_a,
                               int lda, long long sa, const void* B, int type_b, int ldb, long long sb,
                               const void* beta, void* C, int type_c, int ldc, long long sc, int count, int, int) {
  if (type_a != type_b || type_a != type_c) return not_supported;
  int on = called();
  return with_type(type_a, not_supported, [&](auto zero) {
    using T = decltype(zero);
    auto [a, b, c] = std::tuple(static_cast<const T*>(A), static_cast<const T*>(B), static_cast<T*>(C));
    auto [by, plus] = std::tuple(static_cast<const T*>(alpha), static_cast<const T*>(beta));
    int status = success;
    for (int i = 0; i < count && on && !status; ++i)
      status = gemm(ta, tb, m, n, k, by, a + i * sa, lda, b + i * sb, ldb, plus, c + i * sc, ldc);
    return status;
  });
}
int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* A, int type_a,
                 int lda, const void* B, int type_b, int ldb, const void* beta, void* C, int type_c, int ldc, int how,
                 int algorithm) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, A, type_a, lda, 0, B, type_b, ldb, 0, beta, C,
                                    type_c, ldc, 0, 1, how, algorithm);
}

int cublasCreate_v2(void** handle) { return *handle = &math_mode, success; }
int cublasDestroy_v2(void*) { return success; }
int cublasGetVersion_v2(void*, int* version) { return *version = HC_CUDA_VERSION * 10, success; }
int cublasSetStream_v2(void*, void*) { return success; }
int cublasGetStream_v2(void*, void** stream) { return *stream = nullptr, success; }
int cublasSetMathMode(void*, int mode) { return math_mode = mode, success; }
int cublasGetMathMode(void*, int* mode) { return *mode = math_mode, success; }
int cublasSetPointerMode_v2(void*, int mode) { return pointer_mode = mode, success; }
int cublasGetPointerMode_v2(void*, int* mode) { return *mode = pointer_mode, success; }

}  // extern "C"
