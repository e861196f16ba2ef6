// Products of keys with the digits of a polynomial, the image under X → X^power being read from the values as they are.
//
// Value x of an image is value source_of(x) of the polynomial. Two neighbours come from two places of the same block of 64, so a warp
// reads whole lines. Keys and diagonals, which nobody reads again, come past the first-level cache.
#pragma once
#include "rns/word.cuh"

/// A limb of the result of a key product, as `becalm_cuda::rns::KeyLimb` lays it out.
struct KeyLimb {
  /// Its word, and 1 if that is a special one, which stands behind all words of a key's level.
  u32 word, special;
  /// The digit that knows the limb: its words are among the digit's own.
  u32 digit, unused;
  /// Of the polynomial's own limb.
  double factor;
  u64 unused2;
};
/// Limbs that are multiplied with a key: a polynomial or a middle step of a linear map.
struct Turned {
  const double *own0, *own1, *lifted, *values;
  u32 owned, unused;
  u64 unused2;
};

/// Products of residues up to p, or twice as many but one if a factor of each is at most p/2 + 1, that a lazy sum takes beside a
/// residue: their sum is below p²·terms, which word.magic allows, and low parts gather below 2^53 (`lazy_terms` in
/// `math/rns/ntt.rs` of becalm).
__device__ __forceinline__ u32 lazy_terms(double p) { return p < 281474976710656.0 ? 16 : p < 562949953421312.0 ? 8 : 4; }

/// Lazy sums modulo a word, whose constants are read where they are needed.
struct Sums {
  const Word& word;

  __device__ __forceinline__ Lazy begin(double first) const { return Lazy(word.magic, first); }
  __device__ __forceinline__ double end(const Lazy& sum) const { return sum.settle(Modulo(word), word.magic); }
  __device__ __forceinline__ void settle(Lazy& sum) const { sum = begin(end(sum)); }
};

/// Where limb i of digit j lies, `step` limbs from one digit to the next.
__device__ __forceinline__ const double* row_of(const double* lifted, const double* values, u32 digit, u32 j, u32 i, u32 step) {
  return digit == j ? values + u64(i) * N : lifted + (u64(j) * step + i) * N;
}
/// The limb of a digit of a key, of `stored`, for limb i of `count`.
__device__ __forceinline__ u32 key_place(const KeyLimb& limb, u32 i, u32 stored, u32 count) {
  return limb.special ? i + stored - count : i;
}

/// Two neighbouring values of an image: from two places, or where they are.
template <bool TURN>
struct Places {
  u32 first, second;

  __device__ __forceinline__ Places(u32 x, u32 power) : first(x), second(x + 1) {
    if (TURN) first = source_of(x, power), second = source_of(x + 1, power);
  }
  __device__ __forceinline__ double2 load(const double* limb) const {
    return TURN ? make_double2(limb[first], limb[second]) : *reinterpret_cast<const double2*>(limb + first);
  }
};

/// The arguments of a key product.
struct KeyProduct {
  double* out;
  const double *base, *own0, *own1;
  u32 owned;
  const double *lifted, *values, *bodies, *masks;
  u32 stored, digits, step, count;
  /// Polynomials, which share a reading of the key, and doubles from one to the next of their own parts, of `values` and of `lifted`.
  u32 batch;
  u64 own_stride, values_stride, lifted_stride;
};

/// Sums of both polynomials at two neighbours.
struct KeySums {
  Lazy x[2], y[2];

  __device__ __forceinline__ void add(int k, double2 a, double2 b) { x[k].add(a.x, b.x), y[k].add(a.y, b.y); }
  __device__ __forceinline__ void settle(const Sums& sums) {
    UNROLL for (int k = 0; k < 2; k++) sums.settle(x[k]), sums.settle(y[k]);
  }
};

/// Makes values x and x + 1 of limb blockIdx.y; x is even. A digit costs 32 bytes of keys, 16 of values and 16 operations, the end 32.
template <bool TURN>
__device__ __forceinline__ void key_product(const KeyProduct& all_of, const KeyLimb& limb, const Word& word, u32 power) {
  const u32 i = blockIdx.y, digit = limb.digit;
  // Neighbouring blocks have the same part of the key, for one polynomial each.
  const u32 b = blockIdx.x % all_of.batch, x = 2 * (blockIdx.x / all_of.batch * blockDim.x + threadIdx.x);
  KeyProduct a = all_of;
  a.out += u64(b) * 2 * a.count * N, a.lifted += b * a.lifted_stride, a.values += b * a.values_stride;
  if (a.base) a.base += u64(b) * 2 * a.count * N;
  if (a.own0) a.own0 += b * a.own_stride;
  if (a.own1) a.own1 += b * a.own_stride;
  const u64 part = u64(a.count) * N, at = u64(i) * N + x, step = u64(a.stored) * N;
  const u64 place = u64(key_place(limb, i, a.stored, a.count)) * N + x;
  const double *body = a.bodies + place, *mask = a.masks + place;
  const Places<TURN> places(x, power);
  const Sums sums{word};
  const u32 terms = lazy_terms(word.p);
  auto load = [](const double* from) { return *reinterpret_cast<const double2*>(from); };
  auto load_key = [](const double* from) { return load_once(reinterpret_cast<const double2*>(from)); };
  // All of the key is on its way at once, without a register.
  LOOP_2
  for (u32 j = 0; j < a.digits; j++) fetch_ahead(body + j * step), fetch_ahead(mask + j * step);
  KeySums all;
  UNROLL for (int k = 0; k < 2; k++) {
    const double2 first = a.base ? load(a.base + k * part + at) : make_double2(0.0, 0.0);
    all.x[k] = sums.begin(first.x), all.y[k] = sums.begin(first.y);
    const double* const own = k ? a.own1 : a.own0;
    if (!own || i >= a.owned) continue;
    const double2 value = places.load(own + u64(i) * N);
    all.add(k, value, make_double2(limb.factor, limb.factor));
  }
  // The product with the factor is one of them.
  u32 room = terms - 1;
  auto gather = [&](double2 row, double2 key0, double2 key1) {
    if (room == 0) all.settle(sums), room = terms;
    room--;
    all.add(0, row, key0), all.add(1, row, key1);
  };
  // Two digits at a time: their loads are under way together.
  LOOP
  for (u32 j = 0; j < a.digits; j += 2, body += 2 * step, mask += 2 * step) {
    const bool two = j + 1 < a.digits;
    double2 next[3];
    const double2 body0 = load_key(body), mask0 = load_key(mask);
    const double2 row = places.load(row_of(a.lifted, a.values, digit, j, i, a.step));
    if (two) {
      next[1] = load_key(body + step), next[2] = load_key(mask + step);
      next[0] = places.load(row_of(a.lifted, a.values, digit, j + 1, i, a.step));
    }
    gather(row, body0, mask0);
    if (two) gather(next[0], next[1], next[2]);
  }
  UNROLL for (int k = 0; k < 2; k++) {
    const double2 value = make_double2(sums.end(all.x[k]), sums.end(all.y[k]));
    store_through(reinterpret_cast<double2*>(a.out + k * part + at), value);
  }
}
