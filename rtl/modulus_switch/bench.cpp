// Ciphertexts one word a clock, with pauses.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    const size_t size = DIMENSION + 1;
    b.top.reset = 1;
    for (int i = 0; i < 4; i++) b.clock();
    b.top.reset = 0;
    std::vector<uint64_t> wanted;
    size_t got = 0, sent = 0, total = b.words.size() / 2;
    while (got < total && b.clocks < 100 * total) {
        bool sending = sent < total && b.clocks % 7 != 0;
        b.top.valid = sending;
        b.top.body = sent % size == DIMENSION;
        if (sending) {
            size_t base = sent / size * 2 * size + sent % size;
            b.top.word = b.words[base];
            wanted.push_back(b.words[base + size]);
            sent++;
        }
        b.clock();
        if (b.top.out_valid) { b.expect(b.top.exponent, wanted[got], "exponent", got); got++; }
    }
    return b.report() || got != total;
}
