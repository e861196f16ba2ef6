// Batches of falling size; the key comes with pauses in every second batch, and results are taken with pauses there.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    const size_t N = 1 << LOGN, T = 1 << LOGT, M = N / T, wide = (DIMENSION + T) / T, big = K * N, row_words = LEVEL * T;
    const uint64_t *key = b.take(big * wide * row_words);
    struct Job { const uint64_t *ct, *result; };
    std::vector<Job> jobs;
    while (b.more()) {
        Job j;
        j.ct = b.take(big + 1);
        j.result = b.take(DIMENSION + 1);
        jobs.push_back(j);
    }
    auto &top = b.top;
    top.reset = 1;
    for (int i = 0; i < 16; i++) b.clock();
    top.reset = 0;
    uint64_t first = 0;
    for (size_t batch = jobs.size(), turn = 0; batch > 0; batch--, turn++) {
        size_t sent = 0, row = 0, pushed = 0, popped = 0, word = 0, rows = big * wide;
        uint64_t begin = b.clocks, limit = begin + 100 * batch * rows + 100000;
        top.start = 1;
        top.count = batch;
        b.clock();
        top.start = 0;
        while (word < batch * wide && b.clocks < limit) {
            bool pause = turn % 2 == 1 && b.clocks % 5 < 2;
            top.in_valid = sent < batch * (K * M + 1);
            const uint64_t *ct = jobs[sent / (K * M + 1) % jobs.size()].ct;
            for (size_t l = 0; l < T && top.in_valid; l++) {
                size_t at = sent % (K * M + 1);
                set(top.in_words, l, at == K * M ? (l == 0 ? ct[big] : 0) : ct[at * T + l]);
            }
            top.key_push = pushed < rows && pushed - popped < 200 && !pause;
            for (size_t i = 0; i < row_words && top.key_push; i++) set(top.key_words, i, key[pushed * row_words + i]);
            top.out_room = !pause;
            top.eval();
            popped += top.key_pop;
            sent += top.in_valid;
            pushed += top.key_push;
            b.clock();
            top.in_valid = top.key_push = 0;
            if (!top.out_valid) continue;
            for (size_t l = 0; l < T; l++) {
                size_t at = word % wide * T + l;
                if (at <= DIMENSION) b.expect(get(top.out_words, l), jobs[word / wide].result[at], "word", at);
            }
            b.expect(top.out_last, word % wide == wide - 1, "end", word);
            word++;
        }
        if (word < batch * wide) { printf("only %zu of %zu rows came back\n", word, batch * wide); return 1; }
        if (turn == 0) first = b.clocks - begin;
        for (int i = 0; i < 4; i++) b.clock();
    }
    char note[80];
    snprintf(note, sizeof note, ", %lu for the first batch of %zu", first, jobs.size());
    return b.report(note);
}
