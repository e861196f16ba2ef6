// Exact arithmetic modulo p = 2^64 − 2^32 + 1, for GPUs whose doubles are slow: values of a transform are residues.
//
// 2^64 ≡ 2^32 − 1 and 2^96 ≡ −1, so a product of 128 bits is reduced by a shift, a difference and a sum; 2 is a root of unity
// of order 192, and multiplication by a power of it needs no product. ψ, the root of order 2N, is chosen such that
// ψ^(N/32) = 8. Within a transform residues are any words that stand for them, only what is added to one or taken from it is
// reduced: so sums need one comparison, not two. Coefficients are reduced. Ciphertexts are words modulo 2^64, or modulo p with PRIME; a word x modulo 2^64
// stands for x − ⌊x/2^32⌋ modulo p and comes back as y + ⌊y/2^32⌋, both to within two units. The gadget's factor is
// 2^(64−βl) in either case, as in the library.
#pragma once
#include "device.cuh"
#include "shape.cuh"

constexpr u64 P = 0xFFFFFFFF00000001ull, EPSILON = 0xFFFFFFFFull;

/// A residue modulo p. One coefficient, or one value of a transform.
struct Word {
  u64 v;
#ifdef BECALM_PLANTS
  // The compiler tells the race check of assignments. A word that is copied as a whole into a call's argument or out of its
  // result is none; one that is copied by these is.
  Word() = default;
  explicit Word(u64 v) : v(v) {}
  Word(const Word& a) : v(a.v) {}
  Word& operator=(const Word& a) {
    v = a.v;
    return *this;
  }
#endif
};
typedef Word Value;
typedef Word Coefficient;
/// Digits that are still to be taken, as one integer.
typedef i64 Rest;

INLINE_ON_GPU Word word(u64 v) { return Word{v}; }
INLINE_ON_GPU Word reduced(u64 v) { return word(v >= P ? v - P : v); }
INLINE_ON_GPU Word operator+(Word a, Word b) {
  const u64 sum = a.v + b.v;
  return word(sum < a.v || sum >= P ? sum - P : sum);
}
INLINE_ON_GPU Word operator-(Word a, Word b) {
  const u64 difference = a.v - b.v;
  return word(a.v < b.v ? difference + P : difference);
}
INLINE_ON_GPU Word operator*(Word a, Word b) {
  const u64 low = a.v * b.v, high = __umul64hi(a.v, b.v);
  const u64 less = low - (high >> 32), first = low < (high >> 32) ? less - EPSILON : less;
  const u64 more = (high & EPSILON) * EPSILON, sum = first + more;
  return reduced(sum < more ? sum + EPSILON : sum);
}
/// a ± b for any a and a reduced b, not reduced: beyond 2^64 or below 0 by less than p.
INLINE_ON_GPU Word plus(Word a, Word b) {
  const u64 sum = a.v + b.v;
  return word(sum < b.v ? sum + EPSILON : sum);
}
INLINE_ON_GPU Word minus(Word a, Word b) {
  const u64 difference = a.v - b.v;
  return word(a.v < b.v ? difference - EPSILON : difference);
}
INLINE_ON_GPU Word multiply_add(Word a, Word b, Word c) { return plus(c, a * b); }
INLINE_ON_GPU Word zero() { return word(0); }
INLINE_ON_GPU Word read(const Word* at) { return word(__ldg(&at->v)); }
INLINE_ON_GPU Word from_signed(i64 x) { return word(u64(x) + (x < 0 ? P : 0)); }
/// The representative of least absolute value.
INLINE_ON_GPU i64 to_signed(Word a) { return i64(a.v > P / 2 ? a.v - P : a.v); }

/// 2^shift, 0 <= shift < 192: 2^96 = −1.
struct Power {
  int shift;
};
/// a·2^s reduced, any a, 0 <= s < 96, by words of 32 bits: a·2^(s mod 32) = y_0 + y_1·2^32 + y_2·2^64, times 2^(32·⌊s/32⌋).
INLINE_ON_GPU Word shifted(Word a, int s) {
  const int bits = s % 32;
  const u64 low = a.v << bits, top = bits > 0 ? a.v >> (64 - bits) : 0;
  if (s < 32) return reduced(low) + word(top * EPSILON);
  if (s < 64) return word(low << 32) - word(top) + word((low >> 32) * EPSILON);
  return word((low & EPSILON) * EPSILON) - word(top << 32 | low >> 32);
}
INLINE_ON_GPU Word times_i(Word a) { return shifted(a, 48); }
INLINE_ON_GPU Word times_minus_i(Word a) { return zero() - shifted(a, 48); }
INLINE_ON_GPU Power times_i(Power a) { return Power{(a.shift + 48) % 192}; }
INLINE_ON_GPU Power times_minus_i(Power a) { return Power{(a.shift + 144) % 192}; }

/// (a + w·b, a − w·b)
INLINE_ON_GPU void butterfly(Word& a, Word& b, Word w) {
  const Word turned = w * b;
  b = minus(a, turned);
  a = plus(a, turned);
}
INLINE_ON_GPU void butterfly(Word& a, Word& b, Power w) {
  const Word turned = shifted(b, w.shift % 96), sum = plus(a, turned), difference = minus(a, turned);
  a = w.shift < 96 ? sum : difference;
  b = w.shift < 96 ? difference : sum;
}
INLINE_ON_GPU void butterfly(Word& a, Word& b) { butterfly(a, b, Power{0}); }
INLINE_ON_GPU void butterfly_minus_i(Word& a, Word& b) { butterfly(a, b, Power{144}); }

/// Factors of the first pass, the same for every thread: ψ^(N/2), ψ^(N/4), ψ^(N/8), ψ^(3N/8), ψ^(N/16), ….
INLINE_ON_GPU Power first_factor(int i) {
  return Power{i == 0 ? 48 : i == 1 ? 24 : i == 2 ? 12 : i == 3 ? 36 : i == 4 ? 6 : i == 5 ? 30 : i == 6 ? 18 : 42};
}
/// ψ^(−N/4)
INLINE_ON_GPU Power eighth_back() { return Power{168}; }
/// ψ^(−ρN/8), for values of this type.
INLINE_ON_GPU Power sixteenth_back(const Word&, int rho) { return Power{(192 - 12 * rho) % 192}; }
INLINE_ON_GPU Word minus_one(Word a) { return a - word(1); }

/// A word of a ciphertext or a key, and back.
INLINE_ON_GPU Word from_torus(u64 a) { return word(PRIME ? a : a - (a >> 32)); }
INLINE_ON_GPU u64 to_torus(Word a) { return PRIME ? a.v : a.v + (a.v >> 32); }
/// Minus a word of a ciphertext, or a coefficient.
INLINE_ON_GPU u64 opposite(u64 a) { return PRIME ? (zero() - word(a)).v : 0 - a; }
INLINE_ON_GPU Word opposite(Word a) { return zero() - a; }

/// Words of ciphertexts, modulo 2^64 or p.
INLINE_ON_GPU u64 added(u64 a, u64 b) { return PRIME ? (word(a) + word(b)).v : a + b; }
INLINE_ON_GPU u64 scaled(u64 a, u64 factor) { return PRIME ? (word(a) * word(factor)).v : a * factor; }
/// A word as an integer of least absolute value, and the nearest word modulo 2^64.
INLINE_ON_GPU i64 centered(u64 a) { return PRIME ? to_signed(word(a)) : i64(a); }
INLINE_ON_GPU u64 lifted(u64 a) { return PRIME ? a + (a >> 32) : a; }

/// The coefficient of a point, and where it goes.
template <class F>
INLINE_ON_GPU Word gather(int j, F at) {
  return at(j);
}
INLINE_ON_GPU void scatter(Word* polynomial, int j, Word value) { polynomial[j] = value; }

/// a to the nearest multiple of the last digit's unit, halves up.
INLINE_ON_GPU Rest round_to_digits(Word a) {
  constexpr int DROPPED = 64 - BASE_LOG * LEVEL;
  const i64 c = to_signed(a);
  return (c >> DROPPED) + (c >> (DROPPED - 1) & 1);
}
/// ⌊turned − a⌉
INLINE_ON_GPU Rest difference(Word turned, Word a) { return round_to_digits(turned - a); }
/// a ← ⌊a⌉, and its digits.
INLINE_ON_GPU Rest rounded(Word& a) {
  constexpr int DROPPED = 64 - BASE_LOG * LEVEL;
  const Rest rest = round_to_digits(a);
  a = shifted(from_signed(rest), DROPPED);
  return rest;
}
/// The digit of level `l`, taken off `rest`: called from the last level to the first.
INLINE_ON_GPU Word take_digit(Rest& rest, int l) {
  if (l == 0) return from_signed(rest);
  const i64 digit = i64(u64(rest) << (64 - BASE_LOG)) >> (64 - BASE_LOG);
  rest = (rest >> BASE_LOG) + (rest >> (BASE_LOG - 1) & 1);
  return from_signed(digit);
}
/// The accumulator after a step.
INLINE_ON_GPU Word accumulate(Word a, Word sum) { return a + sum; }
