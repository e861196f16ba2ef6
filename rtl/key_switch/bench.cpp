// Batches of falling size; the key comes with pauses in every second one, and results are taken with pauses there. Then batches
// that a reset stops at a random moment, each before a whole one.
#include "bench.hpp"

struct Job { const uint64_t *ct, *result; };

struct Batches {
    Bench &b;
    const uint64_t *key;
    std::vector<Job> jobs;
    static constexpr size_t N = 1 << LOGN, T = 1 << LOGT, M = N / T, WIDE = (DIMENSION + T) / T, BIG = K * N, ROW_WORDS = LEVEL * T;

    // Runs the first `batch` jobs, for `most` clocks; false if they are not back by then.
    bool run(size_t batch, bool pauses, uint64_t most) {
        auto &top = b.top;
        size_t sent = 0, pushed = 0, popped = 0, word = 0;
        const size_t rows = BIG * WIDE;
        const uint64_t begin = b.clocks;
        top.start = 1;
        top.count = batch;
        b.clock();
        top.start = 0;
        while (word < batch * WIDE && b.clocks - begin < most) {
            const bool pause = pauses && b.clocks % 5 < 2;
            top.in_valid = sent < batch * (K * M + 1);
            const uint64_t *ct = jobs[sent / (K * M + 1) % jobs.size()].ct;
            for (size_t l = 0; l < T && top.in_valid; l++) {
                size_t at = sent % (K * M + 1);
                set(top.in_words, l, at == K * M ? (l == 0 ? ct[BIG] : 0) : ct[at * T + l]);
            }
            top.key_push = pushed < rows && pushed - popped < 200 && !pause;
            for (size_t i = 0; i < ROW_WORDS && top.key_push; i++) set(top.key_words, i, key[pushed * ROW_WORDS + i]);
            top.out_room = !pause;
            top.eval();
            popped += top.key_pop;
            sent += top.in_valid;
            pushed += top.key_push;
            b.clock();
            top.in_valid = top.key_push = 0;
            if (!top.out_valid) continue;
            for (size_t l = 0; l < T; l++) {
                size_t at = word % WIDE * T + l;
                if (at <= DIMENSION) b.expect(get(top.out_words, l), jobs[word / WIDE].result[at], "word", at);
            }
            b.expect(top.out_last, word % WIDE == WIDE - 1, "end", word);
            word++;
        }
        return word == batch * WIDE;
    }
};

int main(int count, char **values) {
    Bench b(values[1]);
    Batches batches{b, nullptr, {}};
    batches.key = b.take(Batches::BIG * Batches::WIDE * Batches::ROW_WORDS);
    while (b.more()) {
        Job j;
        j.ct = b.take(Batches::BIG + 1);
        j.result = b.take(DIMENSION + 1);
        batches.jobs.push_back(j);
    }
    reset(b);
    const size_t all = batches.jobs.size();
    const uint64_t limit = 100 * all * Batches::BIG * Batches::WIDE + 100000;
    uint64_t first = 0;
    for (size_t batch = all, turn = 0; batch > 0; batch--, turn++) {
        const uint64_t begin = b.clocks;
        if (!batches.run(batch, turn % 2, limit)) { printf("a batch of %zu did not come back\n", batch); return 1; }
        if (turn == 0) first = b.clocks - begin;
        for (int i = 0; i < 4; i++) b.clock();
    }
    Random random;
    const uint64_t times = aborts(count, values);
    for (uint64_t i = 0; i < times; i++) {
        batches.run(all, i % 2, 1 + random.below(first));
        reset(b);
        if (!batches.run(all, false, limit)) { printf("nothing came back behind reset %lu\n", i); return 1; }
        for (int j = 0; j < 4; j++) b.clock();
    }
    char note[120];
    snprintf(note, sizeof note, ", %lu for the first batch of %zu, %lu resets", first, all, times);
    return b.report(note);
}
