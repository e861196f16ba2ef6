// A batch of bootstraps, and the same batch again with one ciphertext less and a flush. The key's steps arrive late.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    const size_t N = 1 << LOGN, T = 1 << LOGT, M = N / T, row_words = LEVEL * (K + 1) * T;
    const uint64_t *key = b.take(DIMENSION * (K + 1) * M * row_words);
    struct Job { const uint64_t *ct; uint64_t index; const uint64_t *table, *result; };
    std::vector<Job> jobs;
    while (b.more()) {
        Job j;
        j.ct = b.take(DIMENSION + 1);
        j.index = b.next();
        j.table = b.take((K + 1) * N);
        j.result = b.take(K * N + 1);
        jobs.push_back(j);
    }
    auto &top = b.top;
    top.out_room = 1;
    top.in_results = 1;
    top.reset = 1;
    for (int i = 0; i < 8; i++) b.clock();
    top.reset = 0;
    uint64_t loop_clocks = 0;
    for (size_t batch = jobs.size(), turn = 0; turn < 2 && batch > 0; batch--, turn++) {
        size_t sent = 0, received = 0, row = 0, words = batch * (DIMENSION + 1);
        uint64_t begin = b.clocks, limit = b.clocks + 1000000 + 100ull * batch * DIMENSION * (K + 1) * M;
        while (received < batch && b.clocks < limit) {
            top.in_valid = sent < words && (turn == 0 || b.clocks % 3 != 0);
            const Job &job = jobs[sent / (DIMENSION + 1) % jobs.size()];
            top.in_word = sent < words ? job.ct[sent % (DIMENSION + 1)] : 0;
            top.in_index = job.index;
            top.flush = sent == words;
            // In the second turn a step of the key arrives every 1.5 steps of the batch.
            uint64_t late = (b.clocks - begin) / (batch * (K + 1) * M * 3 / 2);
            top.key_loaded = turn == 0 || late > DIMENSION ? DIMENSION : late;
            top.eval();
            bool taken = top.in_valid && top.in_ready;
            // The memories answer one clock later.
            size_t table = top.table_poly * N + top.table_row, slot = top.table_slot;
            bool asked = top.table_poly <= K && slot < batch;
            size_t at = (((size_t)top.key_used * (K + 1) + top.key_poly) * M + top.key_row) * row_words;
            b.clock();
            sent += taken;
            for (size_t l = 0; l < T && asked; l++) set(top.table_words, l, jobs[slot].table[table + l * M]);
            for (size_t i = 0; i < row_words && at + row_words <= DIMENSION * (K + 1) * M * row_words; i++) set(top.key_words, i, key[at + i]);
            top.eval();
            if (!top.out_valid) continue;
            const Job &out = jobs[top.out_slot];
            b.expect(top.out_slot, received, "slot", received);
            if (row == K * M) b.expect(get(top.out_words, 0), out.result[K * N], "body", received);
            for (size_t l = 0; l < T && row < K * M; l++) {
                size_t word = row / M * N + l * M + row % M;
                b.expect(get(top.out_words, l), out.result[word], "mask", received * K * N + word);
            }
            b.expect(top.out_last, row == K * M, "end", row);
            if (row++ == K * M) { row = 0; received++; }
        }
        if (received < batch) { printf("only %zu of %zu came back\n", received, batch); return 1; }
        if (turn == 0) loop_clocks = b.clocks - begin;
    }
    char note[80];
    snprintf(note, sizeof note, ", %lu for the first batch of %zu", loop_clocks, jobs.size());
    return b.report(note);
}
