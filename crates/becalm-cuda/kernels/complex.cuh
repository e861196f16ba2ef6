// Arithmetic in doubles: values of a transform are complex.
//
// A coefficient is a double in units of the last digit, so nothing is converted or scaled on the way, and the key is in these
// units too; digits are rounded by adding 1.5·2^52. A point is the coefficient j and, as imaginary part, j + M.
#pragma once
#include "device.cuh"
#include "shape.cuh"

typedef double2 Value;
typedef double Coefficient;
/// Digits that are still to be taken.
typedef double2 Rest;

__device__ __forceinline__ double2 zero() { return make_double2(0.0, 0.0); }
__device__ __forceinline__ double2 read(const double2* at) { return __ldg(at); }
__device__ __forceinline__ double2 times_i(double2 a) { return make_double2(-a.y, a.x); }
__device__ __forceinline__ double2 times_minus_i(double2 a) { return make_double2(a.y, -a.x); }
__device__ __forceinline__ double2 operator+(double2 a, double2 b) { return make_double2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ double2 operator-(double2 a, double2 b) { return make_double2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ double2 operator*(double2 a, double2 b) {
  return make_double2(fma(a.x, b.x, -(a.y * b.y)), fma(a.x, b.y, a.y * b.x));
}
/// a·b + c
__device__ __forceinline__ double2 multiply_add(double2 a, double2 b, double2 c) {
  return make_double2(fma(a.x, b.x, fma(-a.y, b.y, c.x)), fma(a.x, b.y, fma(a.y, b.x, c.y)));
}
/// (a + w·b, a − w·b), the second as 2a − (a + w·b).
__device__ __forceinline__ void butterfly(double2& a, double2& b, double2 w) {
  double2 sum = multiply_add(w, b, a);
  b = make_double2(fma(2.0, a.x, -sum.x), fma(2.0, a.y, -sum.y));
  a = sum;
}
__device__ __forceinline__ void butterfly(double2& a, double2& b) {
  double2 sum = a + b;
  b = a - b;
  a = sum;
}

/// (a − i·b, a + i·b)
__device__ __forceinline__ void butterfly_minus_i(double2& a, double2& b) {
  double2 turned = times_minus_i(b);
  b = a - turned;
  a = a + turned;
}

/// e^(iπ/4), e^(iπ/8), e^(iπ/16), e^(5iπ/16): factors of the first pass, the same for every thread.
__device__ __forceinline__ double2 first_factor(int i) {
  return i == 0   ? make_double2(0.70710678118654752440, 0.70710678118654752440)
         : i == 1 ? make_double2(0.92387953251128675613, 0.38268343236508977173)
         : i == 2 ? make_double2(0.98078528040323044913, 0.19509032201612826785)
                  : make_double2(0.55557023301960222474, 0.83146961230254523708);
}
/// e^(−iπ/4)
__device__ __forceinline__ double2 eighth_back() { return make_double2(0.70710678118654752440, -0.70710678118654752440); }
__device__ __forceinline__ double2 minus_one(double2 a) { return make_double2(a.x - 1.0, a.y); }

/// The integer nearest to x, |x| < 2^51.
__device__ __forceinline__ double nearest(double x) {
  const double magic = 6755399441055744.0;
  return (x + magic) - magic;
}
/// The torus in units of the last digit.
constexpr double UNIT = double(u64(1) << (BASE_LOG * LEVEL));
/// x modulo the torus, in [−UNIT/2, UNIT/2].
__device__ __forceinline__ double wrap(double x) {
  const double magic = 6755399441055744.0 * UNIT;
  return x - ((x + magic) - magic);
}

/// A torus element in [−1/2, 1/2), and back, modulo 2^64.
__device__ __forceinline__ double from_torus(u64 a) { return __ll2double_rn(i64(a)) * (UNIT * 0x1p-64); }
__device__ __forceinline__ u64 to_torus(double x) {
  const double scaled = x * (0x1p64 / UNIT);
  return scaled >= 0x1p63 ? u64(1) << 63 : u64(__double2ll_rn(scaled));
}
/// Minus a word of a ciphertext, or a coefficient.
__device__ __forceinline__ u64 opposite(u64 a) { return 0 - a; }
__device__ __forceinline__ double opposite(double a) { return 0.0 - a; }

/// Words of ciphertexts, modulo 2^64.
__device__ __forceinline__ u64 added(u64 a, u64 b) { return a + b; }
__device__ __forceinline__ u64 scaled(u64 a, u64 factor) { return a * factor; }
/// A word as an integer of least absolute value, and the nearest word modulo 2^64.
__device__ __forceinline__ i64 centered(u64 a) { return i64(a); }
__device__ __forceinline__ u64 lifted(u64 a) { return a; }

/// The two coefficients of a point, and where they go.
template <class F>
__device__ __forceinline__ double2 gather(int j, F at) {
  return make_double2(at(j), at(j + M));
}
__device__ __forceinline__ void scatter(double* polynomial, int j, double2 value) {
  polynomial[j] = value.x;
  polynomial[j + M] = value.y;
}

/// ⌊turned − a⌉
__device__ __forceinline__ Rest difference(double2 turned, double2 a) {
  return make_double2(nearest(wrap(turned.x - a.x)), nearest(wrap(turned.y - a.y)));
}
/// a ← ⌊a⌉, and its digits.
__device__ __forceinline__ Rest rounded(double2& a) { return a = make_double2(nearest(a.x), nearest(a.y)); }
__device__ __forceinline__ double take_digit(double& rest, int l) {
  if (l == 0) return rest;
  // Halves up, as the library has them: half a unit of the last place makes that of the rounding to even.
  const double above = nearest(fma(rest, 1.0 / (1u << BASE_LOG), 0.5 / (1u << BASE_LOG)));
  const double digit = fma(-double(1u << BASE_LOG), above, rest);
  rest = above;
  return digit;
}
/// The digits of level `l`, taken off `rest`: called from the last level to the first.
__device__ __forceinline__ double2 take_digit(Rest& rest, int l) {
  const double x = take_digit(rest.x, l);
  return make_double2(x, take_digit(rest.y, l));
}
/// The accumulator after a step.
__device__ __forceinline__ double2 accumulate(double2 a, double2 sum) {
  return make_double2(wrap(a.x + sum.x), wrap(a.y + sum.y));
}
