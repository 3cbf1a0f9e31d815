// CUDA C++ for a compiler of the host: what nvcc knows without an #include, as far as CuPy's kernels use it.
#pragma once
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#define HC_VISIBLE __attribute__((visibility("default")))
#define __global__
#define __device__
#define __host__
#define __constant__ HC_VISIBLE
#define __managed__
#define __noinline__
#define __grid_constant__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// The scheduler puts the running block's in its place.
#define __shared__ static __attribute__((section("hcshared")))
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
#define HC_VECTOR(T, NAME) \
  struct alignas(2 * sizeof(T)) NAME##2 { T x, y; }; \
  struct alignas(16) NAME##4 { T x, y, z, w; }; \
  inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; } \
  inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
HC_VECTOR(float, float) HC_VECTOR(double, double) HC_VECTOR(int, int) HC_VECTOR(unsigned, uint)

// scheduler.cpp
extern "C" {
extern uint3 hc_threadIdx, hc_blockIdx;
extern dim3 hc_blockDim, hc_gridDim;
extern char* hc_dynamic_shared;
void hc_sync_warp(unsigned mask);
void hc_sync_block(int line);
void hc_sync_grid();
void hc_yield();
char* hc_exchange();  // 16 bytes for each thread of the block
}
#define threadIdx hc_threadIdx
#define blockIdx hc_blockIdx
#define blockDim hc_blockDim
#define gridDim hc_gridDim
static constexpr int warpSize = 32;

inline unsigned hc_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
inline unsigned hc_lane() { return hc_thread() & 31; }

#define __syncthreads() hc_sync_block(__LINE__)
inline void __syncwarp(unsigned mask = ~0u) { hc_sync_warp(mask); }
inline void __threadfence() { hc_yield(); }
inline void __threadfence_system() { hc_yield(); }
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { hc_yield(); }

// What a lane of the warp gave; NaN, or -1, where it took no part.
template <class T> inline T hc_shuffle(unsigned mask, T value, unsigned lane) {
  static_assert(sizeof(T) <= 16);
  char *own = hc_exchange() + 16 * hc_thread(), *other = own + 16 * (int(lane) - int(hc_lane()));
  T found;
  std::memcpy(own, &value, sizeof(T));
  hc_sync_warp(mask);
  std::memcpy(&found, other, sizeof(T));
  hc_sync_warp(mask);
  std::memset(own, 0xff, 16);
  return found;
}
// From which lane: of its group of `width` lanes, or its own where that has none such.
#define HC_SHUFFLE(NAME, FROM) \
  template <class T> inline T __shfl##NAME##_sync(unsigned mask, T value, int by, int width = 32) { \
    int lane = hc_lane(), first = lane & ~(width - 1), from = FROM; \
    return hc_shuffle(mask, value, from >= first && from < first + width ? from : lane); \
  }
HC_SHUFFLE(, first + (by & (width - 1))) HC_SHUFFLE(_xor, lane ^ by) HC_SHUFFLE(_down, lane + by)
HC_SHUFFLE(_up, lane - by)
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned found = 0;
  for (int lane = 0; lane < 32; ++lane) {
    int other = __shfl_sync(mask, int(predicate != 0), lane);
    if (mask >> lane & 1 && other == 1) found |= 1u << lane;
  }
  return found;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

template <class T> inline T __ldg(const T* from) { return *from; }
template <class T> inline T __ldcg(const T* from) { return *from; }
template <class T> inline void __stcg(T* to, T value) { *to = value; }

// An atomic operation lets another thread go on.
template <class T, class F> inline T hc_atomic(T* at, F change) {
  T before = *at;
  *at = change(before);
  hc_yield();
  return before;
}
#define HC_ATOMIC(NAME, RESULT) \
  template <class T, class U> inline T atomic##NAME(T* at, U value) { \
    return hc_atomic(at, [=](T before) { return T(RESULT); }); \
  }
HC_ATOMIC(Add, before + T(value)) HC_ATOMIC(Sub, before - T(value)) HC_ATOMIC(Exch, value)
HC_ATOMIC(Max, T(value) > before ? T(value) : before) HC_ATOMIC(Min, T(value) < before ? T(value) : before)
HC_ATOMIC(And, before & T(value)) HC_ATOMIC(Or, before | T(value)) HC_ATOMIC(Xor, before ^ T(value))
template <class T, class U, class V> inline T atomicCAS(T* at, U expected, V value) {
  return hc_atomic(at, [=](T before) { return before == T(expected) ? T(value) : before; });
}

template <class T, class F> inline T hc_bits(F from) {
  static_assert(sizeof(T) == sizeof(F));
  T to;
  std::memcpy(&to, &from, sizeof(T));
  return to;
}
inline int __float_as_int(float x) { return hc_bits<int>(x); }
inline float __int_as_float(int x) { return hc_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return hc_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return hc_bits<float>(x); }
inline long long __double_as_longlong(double x) { return hc_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return hc_bits<double>(x); }
inline unsigned short __float2half_rn(float x) { return hc_bits<unsigned short>(_Float16(x)); }
inline float __half2float(unsigned short x) { return hc_bits<_Float16>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float rsqrt(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
using std::abs, std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cbrt, std::ceil;
using std::copysign, std::cos, std::cosh, std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::fabs, std::floor;
using std::fma, std::fmax, std::fmin, std::fmod, std::frexp, std::hypot, std::isfinite, std::isinf, std::isnan;
using std::ldexp, std::log, std::log10, std::log1p, std::log2, std::modf, std::nextafter, std::pow, std::remainder;
using std::rint, std::round, std::signbit, std::sin, std::sinh, std::sqrt, std::tan, std::tanh, std::trunc;
template <class A, class B> inline std::common_type_t<A, B> min(A a, B b) {
  if constexpr (std::is_floating_point_v<std::common_type_t<A, B>>) return std::fmin(a, b);
  else return b < a ? b : a;
}
template <class A, class B> inline std::common_type_t<A, B> max(A a, B b) {
  if constexpr (std::is_floating_point_v<std::common_type_t<A, B>>) return std::fmax(a, b);
  else return a < b ? b : a;
}
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN

// What compiler.py writes behind a kernel: a function that takes the driver's array of pointers to the arguments.
template <class... A, size_t... I> inline void hc_call(void (*kernel)(A...), void** at, std::index_sequence<I...>) {
  kernel(*reinterpret_cast<std::remove_const_t<std::remove_reference_t<A>>*>(at[I])...);
}
template <class... A> inline void hc_call(void (*kernel)(A...), void** at) {
  hc_call(kernel, at, std::index_sequence_for<A...>());
}
#define HC_EXPORT(NAME, KERNEL) extern "C" HC_VISIBLE void hc_launch_##NAME(void** at) { hc_call(KERNEL, at); }
#define HC_EXPORT_SHARED \
  extern "C" { \
  extern char __start_hcshared[] __attribute__((weak, visibility("hidden"))); \
  extern char __stop_hcshared[] __attribute__((weak, visibility("hidden"))); \
  HC_VISIBLE char *hc_shared_begin = __start_hcshared, *hc_shared_end = __stop_hcshared; \
  }
