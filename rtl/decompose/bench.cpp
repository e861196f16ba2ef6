// One word a clock, LEVEL digits three clocks later.
#include "bench.hpp"

int main(int, char **argv) {
    Bench b(argv[1]);
    size_t size = LEVEL + 1, records = b.words.size() / size;
    for (size_t i = 0; i < records + 2; i++) {
        b.top.a = b.words[size * (i < records ? i : 0)];
        b.clock();
        for (size_t l = 0; i >= 2 && l < LEVEL; l++)
            b.expect(get(b.top.digits, l), b.words[size * (i - 2) + 1 + l], "digit", i - 2);
    }
    return b.report();
}
