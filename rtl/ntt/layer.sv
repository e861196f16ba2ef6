// One layer of the transform on T lanes: coefficients j and j + S/2 of every node of depth LAYER meet.
// Forward: (u, v) → (u + w·v, u − w·v). Inverse: (x, y) → (x + y, (x − y)/w), twice what it should be. w is a power of two.
// The first log2 T layers pair lanes; later ones pair values S/2 clocks apart through a commutator. Latency 7 + S/2 there.
`default_nettype none
module layer #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter LAYER = 0,
    parameter INVERSE = 0
) (
    input  wire                   clk,
    input  wire                   start,
    input  wire [64*(1<<LOGT)-1:0] in,
    output wire                   out_start,
    output wire [64*(1<<LOGT)-1:0] out
);
  `include "plan.svh"
  localparam ACROSS = LAYER < LOGT;
  localparam DEPTH = ACROSS ? 0 : N >> (LAYER + 1);
  localparam STEP = ACROSS ? T >> (LAYER + 1) : 1;  // between the lanes of a butterfly
  localparam LATENCY = 7;
  localparam GROUP = group_of(LAYER);
  // Bits of the node's index that are bits of time, and those among them that choose the twiddle.
  localparam TIMED = ACROSS ? 0 : LAYER - LOGT + 1;
  localparam BITS = TIMED < LAYER - GROUP ? TIMED : LAYER - GROUP;
  localparam LOGM = LOGN - LOGT;
  // The sum of all select bits of gl_shift.
  localparam ALL = 96 - (96 >> BITS);

  wire [64*T-1:0] wide, met;
  wire met_start, wide_start;
  reg [LOGM-1:0] clock = 0;
  wire [LOGM-1:0] now = met_start ? {LOGM{1'b0}} : clock;
  always @(posedge clk) clock <= now + 1'b1;
  // The last bit of the node's index adds 48 to the exponent, the one before 24, …
  wire [4:0] select;
  genvar i, l;
  generate
    for (i = 0; i < 5; i = i + 1) begin : g_select
      if (i < BITS) assign select[i] = now[LOGM-TIMED+i] ^ (INVERSE != 0);
      else assign select[i] = 1'b0;
    end

    for (l = 0; l < T; l = l + 1) begin : g_lane
      if ((l & STEP) == 0) begin : g_pair
        localparam NODE = ACROSS ? l >> (LOGT - LAYER) : (l / 2) << TIMED;
        localparam POWER = 48 * exponent_of(GROUP, LAYER, NODE) / N;
        wire [63:0] u = met[64*l+:64], v = met[64*(l+STEP)+:64];
        if (INVERSE != 0) begin : g_inverse
          // (x − y)/w = (y − x)·2^(96 − power), because 2^96 = −1.
          wire [63:0] sum, difference;
          gl_addsub meet (.clk(clk), .a(v), .b(u), .sum(sum), .difference(difference));
          reg [9:0] select_late;
          always @(posedge clk) select_late <= {select_late[4:0], select};
          gl_shift #(.BASE(96 - POWER - ALL), .BITS(BITS)) twiddle (
              .clk(clk), .x(difference), .select(select_late[9:5]), .y(wide[64*(l+STEP)+:64]));
          delay #(.WIDTH(64), .DEPTH(5)) keep (.clk(clk), .in(sum), .out(wide[64*l+:64]));
        end else begin : g_forward
          wire [63:0] turned, kept;
          gl_shift #(.BASE(POWER), .BITS(BITS)) twiddle (.clk(clk), .x(v), .select(select), .y(turned));
          delay #(.WIDTH(64), .DEPTH(5)) keep (.clk(clk), .in(u), .out(kept));
          gl_addsub meet (
              .clk(clk), .a(kept), .b(turned), .sum(wide[64*l+:64]), .difference(wide[64*(l+STEP)+:64]));
        end
        if (!ACROSS) begin : g_commutate
          if (INVERSE != 0)
            commutator #(.DEPTH(DEPTH)) commute (
                .clk(clk), .start(wide_start), .a(wide[64*l+:64]), .b(wide[64*l+64+:64]),
                .x(out[64*l+:64]), .y(out[64*l+64+:64]));
          else
            commutator #(.DEPTH(DEPTH)) commute (
                .clk(clk), .start(start), .a(in[64*l+:64]), .b(in[64*l+64+:64]),
                .x(met[64*l+:64]), .y(met[64*l+64+:64]));
        end
      end
    end
    if (ACROSS || INVERSE != 0) assign met = in;
    if (ACROSS || INVERSE == 0) assign out = wide;
  endgenerate
  delay #(.WIDTH(1), .DEPTH(INVERSE != 0 ? 0 : DEPTH)) to_met (.clk(clk), .in(start), .out(met_start));
  delay #(.WIDTH(1), .DEPTH(LATENCY)) to_wide (.clk(clk), .in(met_start), .out(wide_start));
  delay #(.WIDTH(1), .DEPTH(INVERSE != 0 ? DEPTH : 0)) to_out (.clk(clk), .in(wide_start), .out(out_start));
endmodule
`default_nettype wire
