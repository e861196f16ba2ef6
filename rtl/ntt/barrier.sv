// Scales coefficient j of every node X^S − ψ^e before layer LAYER by ψ^(e·j/S), or by its inverse: one multiplier and one
// table of N/T words a lane. Latency 13.
`default_nettype none
module barrier #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter LAYER = 5,
    parameter INVERSE = 0
) (
    input  wire                   clk,
    input  wire                   start,
    input  wire [64*(1<<LOGT)-1:0] in,
    output wire                   out_start,
    output wire [64*(1<<LOGT)-1:0] out
);
  `include "plan.svh"
  localparam LOGM = LOGN - LOGT;
  localparam GROUP = group_of(LAYER - 1);
  localparam SIZE = N >> LAYER;
  reg [LOGM-1:0] clock = 0;
  wire [LOGM-1:0] now = start ? {LOGM{1'b0}} : clock;
  always @(posedge clk) clock <= now + 1'b1;

  // The factors of a lane, that of clock 0 in the lowest word; ψ^(2N) = 1.
  function automatic [64*M-1:0] factors_of(input integer l);
    integer t, e, place;
    reg [63:0] factor, step;
    begin
      factor = 1;
      step   = 1;
      for (t = 0; t < M; t = t + 1) begin
        place = place_of(LAYER, l, t);
        if (t == 0 || place % SIZE == 0) begin
          e = exponent_of(GROUP, LAYER, place / SIZE) / SIZE % (2 * N);
          if (INVERSE != 0) e = (2 * N - e) % (2 * N);
          step   = power_of(e);
          factor = power_of(e * (place % SIZE) % (2 * N));
        end else factor = product_of(factor, step);
        factors_of[64*t+:64] = factor;
      end
    end
  endfunction

  genvar l;
  generate
    for (l = 0; l < T; l = l + 1) begin : g_lane
      localparam [64*M-1:0] FACTORS = factors_of(l);
      reg [63:0] factors[0:M-1];
      integer t;
      initial for (t = 0; t < M; t = t + 1) factors[t] = FACTORS[64*t+:64];
      reg [63:0] value, scale;
      always @(posedge clk) begin
        value <= in[64*l+:64];
        scale <= factors[now];
      end
      gl_mul multiply (.clk(clk), .a(value), .b(scale), .y(out[64*l+:64]));
    end
  endgenerate
  delay #(.WIDTH(1), .DEPTH(13)) to_out (.clk(clk), .in(start), .out(out_start));
endmodule
`default_nettype wire
