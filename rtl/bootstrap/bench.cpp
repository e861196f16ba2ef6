// Batches of falling size; the key's steps arrive late in every second one. Then batches that a reset stops at a random moment,
// each before a whole one. A step of the key that has not arrived reads as other words.
#include "bench.hpp"

struct Job { const uint64_t *ct; uint64_t index; const uint64_t *table, *result; };

struct Batches {
    Bench &b;
    const uint64_t *key;
    std::vector<Job> jobs;
    static constexpr size_t N = 1 << LOGN, T = 1 << LOGT, M = N / T, row_words = LEVEL * (K + 1) * T;

    // Runs the first `batch` jobs, for `most` clocks; false if they are not back by then.
    bool run(size_t batch, bool late_key, uint64_t most) {
        auto &top = b.top;
        size_t sent = 0, received = 0, row = 0;
        const size_t words = batch * (DIMENSION + 1);
        const uint64_t begin = b.clocks;
        while (received < batch && b.clocks - begin < most) {
            top.in_valid = sent < words && (!late_key || b.clocks % 3 != 0);
            const Job &job = jobs[sent / (DIMENSION + 1) % jobs.size()];
            top.in_word = sent < words ? job.ct[sent % (DIMENSION + 1)] : 0;
            top.in_index = job.index;
            top.flush = sent == words;
            // A late step of the key arrives every 1.5 steps of the batch.
            const uint64_t arrived = (b.clocks - begin) / (batch * (K + 1) * M * 3 / 2);
            top.key_loaded = !late_key || arrived > DIMENSION ? DIMENSION : arrived;
            top.eval();
            const bool taken = top.in_valid && top.in_ready, there = top.key_used < top.key_loaded;
            // The memories answer one clock later.
            const size_t table = top.table_poly * N + top.table_row, slot = top.table_slot;
            const bool asked = top.table_poly <= K && slot < batch;
            const size_t at = (((size_t)top.key_used * (K + 1) + top.key_poly) * M + top.key_row) * row_words;
            b.clock();
            sent += taken;
            for (size_t l = 0; l < T && asked; l++) set(top.table_words, l, jobs[slot].table[table + l * M]);
            for (size_t i = 0; i < row_words && at + row_words <= DIMENSION * (K + 1) * M * row_words; i++)
                set(top.key_words, i, there ? key[at + i] : i);
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
        return received == batch;
    }
};

int main(int count, char **values) {
    Bench b(values[1]);
    Batches batches{b, nullptr, {}};
    const size_t N = Batches::N, M = Batches::M;
    batches.key = b.take(DIMENSION * (K + 1) * M * Batches::row_words);
    while (b.more()) {
        Job j;
        j.ct = b.take(DIMENSION + 1);
        j.index = b.next();
        j.table = b.take((K + 1) * N);
        j.result = b.take(K * N + 1);
        batches.jobs.push_back(j);
    }
    b.top.out_room = 1;
    b.top.in_results = 1;
    reset(b);
    const size_t all = batches.jobs.size();
    const uint64_t limit = 1000000 + 100ull * all * DIMENSION * (K + 1) * M;
    uint64_t first = 0;
    for (size_t batch = all, turn = 0; batch > 0 && turn < 3; batch = turn == 1 ? 1 : batch - 1, turn++) {
        const uint64_t begin = b.clocks;
        if (!batches.run(batch, turn == 1, limit)) { printf("a batch of %zu did not come back\n", batch); return 1; }
        if (turn == 0) first = b.clocks - begin;
    }
    Random random;
    const uint64_t times = aborts(count, values);
    for (uint64_t i = 0; i < times; i++) {
        batches.run(all, i % 2, 1 + random.below(first));
        reset(b);
        if (!batches.run(all, false, limit)) { printf("nothing came back behind reset %lu\n", i); return 1; }
    }
    char note[120];
    snprintf(note, sizeof note, ", %lu for the first batch of %zu, %lu resets", first, all, times);
    return b.report(note);
}
