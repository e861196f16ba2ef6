// The plan that forward and inverse transform share; included inside modules with LOGN and LOGT.
//
// A node of depth s is the ring modulo X^S − ψ^e, S = N/2^s; its children are X^(S/2) ∓ ψ^(e/2) and −1 = ψ^N. The root is
// e = N. ψ^(N/32) = 8, so the first five layers multiply by powers of two. Then a barrier scales coefficient j of a node by
// ψ^(e·j/S), which makes it cyclic (e = 0), and up to six layers more multiply by powers of two.
localparam N = 1 << LOGN;
localparam T = 1 << LOGT;
localparam M = N / T;  // clocks of a polynomial
localparam FIRST = LOGN < 5 ? LOGN : 5;  // layers before the first barrier
localparam BARRIERS = (LOGN - FIRST + 5) / 6;
localparam [63:0] PRIME = 64'hFFFFFFFF00000001;
localparam [63:0] ROOT = 64'hE2AF70635744FD26;  // of order 2^32; its 2^26-th power is 8

// The first layer of the group that layer s belongs to. Groups after the first differ by one layer at most.
function automatic integer group_of(input integer s);
  integer start, size, g;
  begin
    group_of = 0;
    start = FIRST;
    for (g = 0; g < BARRIERS; g = g + 1) begin
      size = (LOGN - FIRST) / BARRIERS + (g < (LOGN - FIRST) % BARRIERS ? 1 : 0);
      if (s >= start) group_of = start;
      start = start + size;
    end
  end
endfunction

// Exponent e of node `node` of depth s in the coordinates of the group that begins at layer `group`.
function automatic integer exponent_of(input integer group, input integer s, input integer node);
  integer i;
  begin
    exponent_of = group == 0 ? N : 0;
    for (i = s - group - 1; i >= 0; i = i - 1)
    exponent_of = exponent_of / 2 + (((node >> i) & 1) != 0 ? N : 0);
  end
endfunction

function automatic [63:0] product_of(input [63:0] a, input [63:0] b);
  reg [127:0] full;
  begin
    full = {64'b0, a} * {64'b0, b};
    full = full % {64'b0, PRIME};
    product_of = full[63:0];
  end
endfunction

// ψ^exponent.
function automatic [63:0] power_of(input integer exponent);
  reg [63:0] square;
  integer i;
  begin
    square = ROOT;
    for (i = 0; i < 31 - LOGN; i = i + 1) square = product_of(square, square);
    power_of = 1;
    for (i = 0; i <= LOGN; i = i + 1) begin
      if (((exponent >> i) & 1) != 0) power_of = product_of(power_of, square);
      square = product_of(square, square);
    end
  end
endfunction

// Where a value is before layer s: lane l at clock t holds coefficient place % S of node place / S, S = N >> s.
function automatic integer place_of(input integer s, input integer l, input integer t);
  integer size;
  begin
    size = N >> s;
    if (s <= LOGT) place_of = l * M + t;
    else place_of = (2 * ((l / 2) * (M / size) + t / size) + l % 2) * size + t % size;
  end
endfunction
