// cuSOLVER, as much of it as lu_factor, lu_solve, svd and qr call.
#include <vector>

#include "fortran.h"

namespace {

enum Status { success = 0 };

int handle_of_all;

bool called() { return ++hc_state.libraries, hc_state.executed; }

// LAPACK's own buffer; cuSOLVER's, which the caller allocates, is a number.
template <class T> std::vector<T> buffer(int size) { return std::vector<T>(64 * size_t(size) + 64); }

template <class T> const char* unitary_name() { return is_complex<T> ? "ungqr" : "orgqr"; }

}  // namespace

#define FACTORS(L, T) \
  int cusolverDn##L##getrf_bufferSize(void*, int, int, T*, int, int* size) { return *size = 1, success; } \
  int cusolverDn##L##getrf(void*, int m, int n, T* A, int lda, T*, int* pivots, int* info) { \
    std::vector<int> own(std::min(m, n) + 1); \
    if (called()) fortran<T>("getrf", &m, &n, A, &lda, pivots ? pivots : own.data(), info); \
    return success; \
  } \
  int cusolverDn##L##getrs(void*, int trans, int n, int columns, const T* A, int lda, const int* pivots, T* B, int ldb, \
                           int* info) { \
    char t = operation(trans); \
    if (called()) fortran<T>("getrs", &t, &n, &columns, A, &lda, pivots, B, &ldb, info); \
    return success; \
  } \
  int cusolverDn##L##gesvd_bufferSize(void*, int, int, int* size) { return *size = 1, success; } \
  int cusolverDn##L##gesvd(void*, signed char jobu, signed char jobv, int m, int n, T* A, int lda, Type<T>::Real* s, \
                           T* U, int ldu, T* V, int ldv, T*, int, Type<T>::Real*, int* info) { \
    char u = jobu, v = jobv; \
    auto work = buffer<T>(m + n); \
    auto real_work = buffer<Type<T>::Real>(m + n); \
    int size = int(work.size()); \
    T none; \
    if (!called()) return success; \
    if constexpr (is_complex<T>) \
      fortran<T>("gesvd", &u, &v, &m, &n, A, &lda, s, U ? U : &none, &ldu, V ? V : &none, &ldv, work.data(), &size, \
                 real_work.data(), info); \
    else \
      fortran<T>("gesvd", &u, &v, &m, &n, A, &lda, s, U ? U : &none, &ldu, V ? V : &none, &ldv, work.data(), &size, info); \
    return success; \
  } \
  int cusolverDn##L##geqrf_bufferSize(void*, int, int, T*, int, int* size) { return *size = 1, success; } \
  int cusolverDn##L##geqrf(void*, int m, int n, T* A, int lda, T* tau, T*, int, int* info) { \
    auto work = buffer<T>(m + n); \
    int size = int(work.size()); \
    if (called()) fortran<T>("geqrf", &m, &n, A, &lda, tau, work.data(), &size, info); \
    return success; \
  }

#define UNITARY(L, T) \
  int cusolverDn##L##gqr_bufferSize(void*, int, int, int, const T*, int, const T*, int* size) { \
    return *size = 1, success; \
  } \
  int cusolverDn##L##gqr(void*, int m, int n, int k, T* A, int lda, const T* tau, T*, int, int* info) { \
    auto work = buffer<T>(m + n); \
    int size = int(work.size()); \
    if (called()) fortran<T>(unitary_name<T>(), &m, &n, &k, A, &lda, tau, work.data(), &size, info); \
    return success; \
  }

extern "C" {

FOR_ALL_TYPES(FACTORS)
UNITARY(Sor, float) UNITARY(Dor, double) UNITARY(Cun, Complex) UNITARY(Zun, DoubleComplex)

int cusolverDnCreate(void** handle) { return *handle = &handle_of_all, success; }
int cusolverDnDestroy(void*) { return success; }
int cusolverDnSetStream(void*, void*) { return success; }
int cusolverDnGetStream(void*, void** stream) { return *stream = nullptr, success; }
int cusolverGetProperty(int which, int* value) { return *value = which == 0 ? 11 : which == 1 ? 7 : 5, success; }
int cusolverSpCreate(void** handle) { return *handle = &handle_of_all, success; }
int cusolverSpDestroy(void*) { return success; }
int cusolverSpSetStream(void*, void*) { return success; }

}  // extern "C"
