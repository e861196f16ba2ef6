// Linear instructions on ciphertexts: as many as do not wait for each other in one launch.
//
// dst = Σ factor·src, and a constant to each body, for every lane. The same kernel copies (one term), zeroes (none) and takes
// one body out of several (`body_shift`). Cost: one word read a term, one written.
#pragma once
#include "transform.cuh"

struct LinearTerm {
  const u64* src;
  u64 factor;
};
/// `rows` ciphertexts of `width` words, the last `bodies` of them bodies; `src_stride` and `dst_stride`: words from one to the
/// next; body j is read at body_shift + j. `constants`: one for each body, or null.
struct LinearOp {
  u64* dst;
  const u64* constants;
  u32 first_term, terms, rows, width, bodies, dst_stride, src_stride, body_shift;
};

/// Grid (any, operations), any block. Terms of all operations lie in one list.
__device__ void linear(const LinearOp* ops, const LinearTerm* terms) {
  const LinearOp op = ops[blockIdx.y];
  const u64 total = u64(op.rows) * op.width;
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += u64(gridDim.x) * blockDim.x) {
    const u64 row = i / op.width, at = i % op.width;
    const bool body = at >= op.width - op.bodies;
    const u64 from = row * op.src_stride + at + (body ? op.body_shift : 0);
    u64 sum = body && op.constants ? op.constants[at - (op.width - op.bodies)] : 0;
    for (u32 t = op.first_term; t < op.first_term + op.terms; t++) sum = added(sum, scaled(terms[t].src[from], terms[t].factor));
    op.dst[row * op.dst_stride + at] = sum;
  }
}
