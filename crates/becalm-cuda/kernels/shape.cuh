// The ring of a parameter set, given to the compiler as macros; `src/rings.rs` has the list that ships.
//
//   BECALM_LOG2_N       log2 N                        BECALM_K        k, mask polynomials
//   BECALM_BODIES       w, bodies behind the mask     BECALM_BASE_LOG, BECALM_LEVEL: gadget of the bootstrapping key
//   BECALM_GROUP_BITS   key bits of a step            BECALM_GROUP_GGSWS: GGSW of a step's bundle; 0 for a classic step
//   BECALM_ARITHMETIC   0: doubles; 1: exact modulo p, for words modulo 2^64; 2: exact, words modulo p
#pragma once

/// The shape for which there are kernels that make bundles and rotate at the same time (`leaves.cuh`).
#define BECALM_STREAMED                                                                                              \
  (BECALM_LOG2_N == 11 && BECALM_K == 1 && BECALM_BODIES == 1 && BECALM_LEVEL == 1 && BECALM_GROUP_GGSWS == 15 && \
   BECALM_BASE_LOG <= 32 && BECALM_ARITHMETIC == 0)

constexpr bool EXACT = BECALM_ARITHMETIC > 0, PRIME = BECALM_ARITHMETIC == 2;
constexpr int LOG2_N = BECALM_LOG2_N, N = 1 << LOG2_N;
/// Points of a transform: complex ones stand for two coefficients, residues for one.
constexpr int LOG2_M = EXACT ? LOG2_N : LOG2_N - 1, M = 1 << LOG2_M;
constexpr int K = BECALM_K, BODIES = BECALM_BODIES, COLUMNS = K + BODIES;
constexpr int BASE_LOG = BECALM_BASE_LOG, LEVEL = BECALM_LEVEL, ROWS = LEVEL * COLUMNS;
constexpr int GROUP_BITS = BECALM_GROUP_BITS;
constexpr bool CLASSIC = BECALM_GROUP_GGSWS == 0;
constexpr int GGSWS = CLASSIC ? 1 : BECALM_GROUP_GGSWS;
/// Points of a polynomial that a thread holds in registers, and threads of a polynomial: at least a warp.
constexpr int LOG2_POINTS = (LOG2_N >= 9 ? 3 : 2) + (EXACT ? 1 : 0), POINTS = 1 << LOG2_POINTS;
constexpr int THREADS = M / POINTS;
static_assert(LOG2_N >= 8 && LOG2_N <= 14, "polynomials of 256 to 16384 coefficients");
static_assert(BASE_LOG * LEVEL <= (EXACT ? 62 : 48), "digits that the arithmetic holds");
