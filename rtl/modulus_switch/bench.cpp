// Ciphertexts one word a clock, with pauses. A reset stops some of them at a random word; they are sent again.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    const size_t size = DIMENSION + 1;
    reset(b);
    Random random;
    std::vector<uint64_t> wanted;
    size_t got = 0, sent = 0, total = b.words.size() / 2, resets = 0, last = total;
    while (got < total && b.clocks < 100 * total) {
        const bool sending = sent < total && b.clocks % 7 != 0;
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
        // The words of the ciphertext so far are forgotten, those in the pipe too.
        const size_t whole = sent / size;
        if (sent % size != 0 && got / size == whole && whole != last && random.below(2 * size) == 0) {
            b.top.valid = 0;
            reset(b);
            sent = got = whole * size;
            wanted.resize(sent);
            last = whole;
            resets++;
        }
    }
    char note[40];
    snprintf(note, sizeof note, ", %zu resets", resets);
    return b.report(note) || got != total;
}
