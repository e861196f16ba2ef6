// Signed gadget decomposition of a < p into LEVEL digits of BASE_LOG bits, as residues, most significant in the high word.
// c, the representative of least absolute value, is rounded to r = ⌊c/2^DROPPED + 1/2⌋; adding half a base at every lower
// digit turns balanced digits into plain fields of r. Latency 3.
`default_nettype none
module decompose #(
    parameter LEVEL = 2,
    parameter BASE_LOG = 10
) (
    input  wire                clk,
    input  wire [63:0]         a,
    output reg  [64*LEVEL-1:0] digits
);
  localparam DROPPED = 64 - LEVEL * BASE_LOG;
  localparam KEPT = LEVEL * BASE_LOG + 1;
  localparam [63:0] HALF_PRIME = 64'h7FFFFFFF80000000;

  function automatic [KEPT-1:0] halves(input integer unused);
    integer i;
    begin
      halves = KEPT'(unused);
      for (i = 0; i < LEVEL - 1; i = i + 1) halves[BASE_LOG*i+BASE_LOG-1] = 1'b1;
    end
  endfunction
  localparam [KEPT-1:0] HALVES = halves(0);

  reg [63:0] c;
  reg [KEPT-1:0] fields;
  always @(posedge clk) begin
    c <= a > HALF_PRIME ? a + 64'h00000000FFFFFFFF : a;
    fields <= {c[63], c[63:DROPPED]} + {{(KEPT - 1) {1'b0}}, c[DROPPED-1]} + HALVES;
  end

  genvar i;
  generate
    for (i = 0; i < LEVEL; i = i + 1) begin : g_digit
      // The lowest field is the last digit; the highest has a sign of its own and no half to give back.
      wire [BASE_LOG:0] field;
      wire [63:0] digit = {{(63 - BASE_LOG) {field[BASE_LOG]}}, field};
      if (i == LEVEL - 1) assign field = fields[BASE_LOG*i+:BASE_LOG+1];
      else assign field = {1'b0, fields[BASE_LOG*i+:BASE_LOG]} - {2'b01, {(BASE_LOG - 1) {1'b0}}};
      always @(posedge clk) digits[64*i+:64] <= digit - {32'b0, {32{digit[63]}}};
    end
  endgenerate
endmodule
`default_nettype wire
