// Exponents modulo 2N of an LWE ciphertext modulo p, one word a clock, the mask first: round(2N·a/p), halves up.
// a/p is a + ⌊a/2^32⌋ on the grid of 2^64 to within two units. The rounding errors of the mask are summed, and half of
// their sum, the mean of what they do to the phase, goes into the body before it is rounded down (CENTERED). Latency 3.
`default_nettype none
module modulus_switch #(
    parameter LOGN = 10,
    parameter CENTERED = 1
) (
    input  wire          clk,
    input  wire          reset,
    input  wire          valid,
    input  wire          body,
    input  wire [63:0]   word,
    output reg           out_valid,
    output reg  [LOGN:0] exponent
);
  localparam SHIFT = 63 - LOGN;  // log2 of a cell
  localparam [63:0] HALF = 64'd1 << (SHIFT - 1);

  reg [1:0] valids, bodies;
  reg [63:0] torus, lifted, nearest;
  reg signed [79:0] errors;
  // HALF minus what lies above the cell's lower border.
  wire signed [79:0] error = $signed({16'b0, HALF}) - $signed({{(80 - SHIFT) {1'b0}}, nearest[SHIFT-1:0]});
  wire [79:0] centred = {15'b0, lifted, 1'b0} + errors;
  always @(posedge clk) begin
    valids  <= reset ? 2'b0 : {valids[0], valid};
    bodies  <= {bodies[0], body};
    torus   <= word + {32'b0, word[63:32]};
    lifted  <= torus;
    nearest <= torus + HALF;
    out_valid <= valids[1] & ~reset;
    exponent <= bodies[1] && CENTERED != 0 ? centred[SHIFT+1+:LOGN+1] : nearest[63:SHIFT];
    if (reset || (valids[1] && bodies[1])) errors <= 0;
    else if (valids[1]) errors <= errors + error;
  end
endmodule
`default_nettype wire
