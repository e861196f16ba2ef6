// Decodes and issues in order. An instruction waits here until no key switch or bootstrap in flight writes what it reads or
// touches what it writes; who waits closes the open batches, so that they are run. Linear combinations, loads and stores
// are run one at a time before the next instruction is decoded; key switches and bootstraps go on in their queues.
// A word that is not an instruction stops the machine when all before it is written: `status` says why, `offset` which word.
`default_nettype none
module decode #(
    parameter LOGN = 10,
    parameter MANY = 4,  // results of a bootstrap, at most
    parameter STRIDE_LOG = 14
) (
    input  wire        clk,
    input  wire        reset,
    input  wire        start,
    input  wire [31:0] words,
    input  wire [63:0] slots,
    input  wire        word_valid,
    input  wire [63:0] word,
    output wire        word_ready,
    output wire        term_valid,
    input  wire        term_ready,
    output wire        term_first,
    output wire        term_last,
    output wire [63:0] term_address,
    output wire [47:0] term_coefficient,
    output reg         is_small,
    output wire [63:0] constant,
    output wire [63:0] destination,
    input  wire        linear_done,
    output wire        switch_push,
    output wire        bootstrap_push,
    output wire        close,
    output wire        waits,
    output wire [15:0] issue_src,
    output wire [15:0] issue_dst,
    output wire [63:0] issue_key,
    output wire [63:0] issue_table,
    output reg  [MANY*LOGN-1:0] issue_indices,
    output wire [$clog2(MANY+1)-1:0] issue_results,
    output wire [16:0] look_src,
    output wire [16:0] look_dst,
    output wire [15:0] look_last,
    input  wire        hit,
    input  wire        switch_full,
    input  wire        switch_other_key,
    input  wire        bootstrap_full,
    input  wire        bootstrap_other_key,
    input  wire        empty,
    output reg         done,
    output reg  [3:0]  status,
    output reg  [31:0] offset
);
  localparam [3:0] IDLE = 0, MAGIC = 1, HEAD = 2, FIRST = 3, SECOND = 4, INDEX = 5, TERM = 6, SEND = 7, LINEAR = 8,
      ISSUE = 9, DRAIN = 10;
  localparam [3:0] FINE = 0, NO_MAGIC = 1, NO_OPERATION = 2, NO_ZERO = 3, NO_COUNT = 4, NO_SLOT = 5, NO_WORD = 6,
      NO_END = 7, NO_UNIT = 8;
  localparam [63:0] BECALM01 = 64'h31306d6c61636562;

  reg [3:0] state;
  reg [31:0] at;  // words taken
  reg [7:0] op;
  reg [15:0] dst, src;
  reg [12:0] count, sent;
  reg [63:0] first, second, term;
  reg stopping;

  wire takes = state == MAGIC || state == HEAD || state == FIRST || state == SECOND || state == INDEX || state == TERM;
  assign word_ready = takes;
  wire taken = takes && word_valid;
  wire missing = takes && at == words;

  // The first word of an instruction.
  wire [7:0] new_op = word[7:0];
  wire [15:0] new_dst = word[23:8], new_src = word[39:24];
  wire [23:0] extra = word[63:40];
  wire [22:0] new_count = extra[22:0];
  wire counts = new_op == 3 || new_op == 5;
  wire zeros = (new_op == 1 || new_op == 3 || new_op == 4 || new_op == 5 || new_dst == 0) &&
      (new_op == 2 || new_op == 4 || new_op == 5 || new_src == 0) && (counts || extra == 0 || ((new_op == 1 || new_op == 2) && extra == 24'h800000));
  wire good_count = !counts || (new_count != 0 && new_count <= 4096);
  wire good_slot = new_op != 5 || {8'b0, new_dst} + {1'b0, new_count} <= 24'h10000;
  wire good_unit = new_op != 5 || extra <= MANY;
  wire [3:0] verdict = new_op > 7 ? NO_OPERATION : !zeros ? NO_ZERO : !good_count ? NO_COUNT : !good_slot ? NO_SLOT :
      !good_unit ? NO_UNIT : FINE;

  // The instruction to issue, and the registers it touches.
  wire sending = state == SEND, issuing = state == ISSUE;
  wire is_switch = op == 4;
  assign look_src = {(sending && op != 1) || issuing, op == 3 ? term[15:0] : src};
  assign look_dst = {(sending && op != 2) || issuing, dst};
  assign issue_src = src;
  assign issue_dst = dst;
  assign issue_key = first;
  assign issue_table = second;
  assign look_last = op == 5 ? dst + 16'(count) - 1'b1 : dst;
  assign issue_results = count[$clog2(MANY+1)-1:0];
  wire other_key = is_switch ? switch_other_key : bootstrap_other_key;
  wire is_full = is_switch ? switch_full : bootstrap_full;
  wire goes = issuing && !hit && !other_key && !is_full;
  assign switch_push = goes && is_switch;
  assign bootstrap_push = goes && !is_switch;
  assign waits = (issuing || sending) && hit;
  assign close = (issuing && other_key) || state == DRAIN ||
      (state == HEAD && taken && new_op == 7 && verdict == FINE);
  assign term_valid = sending && !hit;
  assign term_first = sent == 0;
  assign term_last = op != 3 || sent + 1'b1 == count;
  assign term_address = op == 1 ? first : slots + (64'(look_src[15:0]) << STRIDE_LOG);
  assign term_coefficient = op == 3 ? term[63:16] : 48'd1;
  assign constant = op == 3 ? first : 64'b0;
  assign destination = op == 2 ? first : slots + (64'(dst) << STRIDE_LOG);

  always @(posedge clk) begin
    if (reset) begin
      state  <= IDLE;
      done   <= 0;
      status <= FINE;
    end else begin
      if (taken) at <= at + 1'b1;
      case (state)
        IDLE: if (start) begin
          state    <= MAGIC;
          at       <= 0;
          done     <= 0;
          status   <= FINE;
          stopping <= 0;
        end
        MAGIC: if (taken) state <= HEAD;
        HEAD: if (taken) begin
          op    <= new_op;
          dst   <= new_dst;
          src   <= new_src;
          count <= new_count[12:0];
          is_small <= extra[23];
          sent  <= 0;
          stopping <= new_op == 0;
          case (new_op[2:0])
            0, 6: state <= DRAIN;
            7: state <= HEAD;
            default: state <= FIRST;
          endcase
        end
        FIRST: if (taken) begin
          first <= word;
          case (op)
            3: state <= TERM;
            4: state <= ISSUE;
            5: state <= SECOND;
            default: state <= SEND;
          endcase
        end
        SECOND: if (taken) begin
          second <= word;
          state  <= INDEX;
        end
        INDEX: if (taken) begin
          issue_indices[LOGN*sent+:LOGN] <= word[LOGN-1:0];
          sent  <= sent + 1'b1;
          state <= sent + 1'b1 == count ? ISSUE : INDEX;
        end
        TERM: if (taken) begin
          term  <= word;
          state <= SEND;
        end
        SEND: if (term_valid && term_ready) begin
          sent  <= sent + 1'b1;
          state <= term_last ? LINEAR : TERM;
        end
        LINEAR: if (linear_done) state <= HEAD;
        ISSUE: if (goes) state <= HEAD;
        default: if (empty) begin
          state <= stopping ? IDLE : HEAD;
          done  <= stopping;
        end
      endcase
      // Refusals. A sum left in the linear unit has no end: it writes nothing.
      if (missing || (taken && ((state == MAGIC && word != BECALM01) || (state == HEAD && verdict != FINE) ||
          (state == HEAD && new_op == 0 && at + 1'b1 != words)))) begin
        state    <= DRAIN;
        stopping <= 1;
        status   <= missing ? NO_WORD : state == MAGIC ? NO_MAGIC : verdict != FINE ? verdict : NO_END;
        offset   <= !missing && state == HEAD && verdict == FINE ? at + 1'b1 : at;
      end
    end
  end
endmodule
`default_nettype wire
