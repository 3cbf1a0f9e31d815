// SciPy's BLAS and LAPACK by their names, which Python hands over; for all four types.
#pragma once
#include <complex>
#include <string>

#include "state.h"

using Complex = std::complex<float>;
using DoubleComplex = std::complex<double>;

extern "C" void* hc_fortran(const char* name);

template <class T> struct Type;
template <> struct Type<float> { using Real = float; static constexpr char letter = 's'; };
template <> struct Type<double> { using Real = double; static constexpr char letter = 'd'; };
template <> struct Type<Complex> { using Real = float; static constexpr char letter = 'c'; };
template <> struct Type<DoubleComplex> { using Real = double; static constexpr char letter = 'z'; };

template <class T> constexpr bool is_complex = !std::is_same<T, typename Type<T>::Real>::value;

// Calls sNAME, dNAME, cNAME or zNAME.
template <class T, class... A> void fortran(const char* name, A*... arguments) {
  reinterpret_cast<void (*)(A*...)>(hc_fortran((Type<T>::letter + std::string(name)).c_str()))(arguments...);
}

// cuBLAS's operation, as Fortran's letter.
inline char operation(int given) { return "NTC"[given]; }
// x, or its conjugate.
template <class T> T conjugated(T x) {
  if constexpr (is_complex<T>) return std::conj(x);
  else return x;
}

// cudaDataType.
enum DataType { type_float = 0, type_double = 1, type_complex = 4, type_double_complex = 5 };
// Calls f(T()) for the type that a number stands for, and returns what it returns; `otherwise` where there is none.
template <class F> int with_type(int type, int otherwise, F f) {
  switch (type) {
    case type_float: return f(float());
    case type_double: return f(double());
    case type_complex: return f(Complex());
    case type_double_complex: return f(DoubleComplex());
  }
  return otherwise;
}

// Defines something for all four types, under the letters of NVIDIA's functions.
#define FOR_ALL_TYPES(DEFINE) DEFINE(S, float) DEFINE(D, double) DEFINE(C, Complex) DEFINE(Z, DoubleComplex)
