// A stand-in for libcusparse.so.12, as far as the product of a CSR matrix and a dense one.
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
extern "C" { int sp_shuffled; }
struct Csr { int64_t rows, cols, nnz; void *p, *j, *v; int pt, jt, base, type; };
struct Dense { int64_t rows, cols, ld; void* v; int type, order; };
static int64_t index(void* a, int t, int64_t i) { return t == 2 ? ((int*)a)[i] : ((int64_t*)a)[i]; }   // CUSPARSE_INDEX_32I = 2
template <class T> static void spmm(int ta, int tb, const T* al, Csr* a, Dense* b, const T* be, Dense* c) {
  T *A = (T*)a->v, *B = (T*)b->v, *Cc = (T*)c->v;
  auto at = [](Dense* d, int64_t i, int64_t j) { return d->order == 1 ? i + j * d->ld : i * d->ld + j; };   // 1: by columns
  for (int64_t i = 0; i < c->rows; ++i) for (int64_t j = 0; j < c->cols; ++j) { T& x = Cc[at(c, i, j)]; x = *be == T(0) ? T(0) : *be * x; }
  // NVIDIA: with a transposed A "this routine may produce slightly different results during different runs"
  static std::mt19937 rng(1);
  std::vector<int64_t> order(a->rows); for (int64_t r = 0; r < a->rows; ++r) order[r] = r;
  if (ta && sp_shuffled) for (int64_t r = a->rows; r > 1; --r) std::swap(order[r - 1], order[rng() % r]);
  for (int64_t r : order) for (int64_t k = index(a->p, a->pt, r) - a->base; k < index(a->p, a->pt, r + 1) - a->base; ++k) {
    int64_t col = index(a->j, a->jt, k) - a->base, i = ta ? col : r, l = ta ? r : col;
    for (int64_t j = 0; j < c->cols; ++j) Cc[at(c, i, j)] += *al * A[k] * (tb ? B[at(b, j, l)] : B[at(b, l, j)]);
  }
}
extern "C" {
int cusparseCreate(void** h) { *h = (void*)0x80; return 0; }
int cusparseCreateMatDescr(void** d) { *d = (void*)0x81; return 0; }
int cusparseDestroyMatDescr(void*) { return 0; }
int cusparseSetMatType(void*, int) { return 0; }
int cusparseSetMatIndexBase(void*, int) { return 0; }
int cusparseSetMatFillMode(void*, int) { return 0; }
int cusparseSetMatDiagType(void*, int) { return 0; }
const char* cusparseGetErrorName(int) { return "CUSPARSE_ERROR"; }
const char* cusparseGetErrorString(int) { return "hostcuda"; }
int cusparseDestroy(void*) { return 0; }
int cusparseSetStream(void*, void*) { return 0; }
int cusparseGetVersion(void*, int* v) { *v = 12510; return 0; }
int cusparseCreateCsr(Csr** d, int64_t r, int64_t c, int64_t n, void* p, void* j, void* v, int pt, int jt, int base, int type) { *d = new Csr{r, c, n, p, j, v, pt, jt, base, type}; return 0; }
int cusparseDestroySpMat(Csr* d) { delete d; return 0; }
int cusparseCreateDnMat(Dense** d, int64_t r, int64_t c, int64_t ld, void* v, int type, int order) { *d = new Dense{r, c, ld, v, type, order}; return 0; }
int cusparseDestroyDnMat(Dense* d) { delete d; return 0; }
int cusparseSpMM_bufferSize(void*, int, int, const void*, void*, void*, const void*, void*, int, int, size_t* n) { *n = 8; return 0; }
int cusparseSpMM(void*, int ta, int tb, const void* al, Csr* a, Dense* b, const void* be, Dense* c, int type, int, void*) {
  switch (type) {
    case 0: spmm(ta, tb, (const float*)al, a, b, (const float*)be, c); return 0;
    case 1: spmm(ta, tb, (const double*)al, a, b, (const double*)be, c); return 0;
    case 4: spmm(ta, tb, (const std::complex<float>*)al, a, b, (const std::complex<float>*)be, c); return 0;
    case 5: spmm(ta, tb, (const std::complex<double>*)al, a, b, (const std::complex<double>*)be, c); return 0;
  }
  return 10;
}
}
