// Sums, differences and products, one pair a clock.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    size_t records = b.words.size() / 5;
    for (size_t i = 0; i < records + 11; i++) {
        const uint64_t *in = &b.words[5 * (i < records ? i : 0)];
        b.top.a = in[0];
        b.top.b = in[1];
        b.clock();
        if (i >= 1 && i - 1 < records) {
            b.expect(b.top.sum, b.words[5 * (i - 1) + 2], "sum", i - 1);
            b.expect(b.top.difference, b.words[5 * (i - 1) + 3], "difference", i - 1);
        }
        if (i >= 11) b.expect(b.top.product, b.words[5 * (i - 11) + 4], "product", i - 11);
    }
    return b.report();
}
