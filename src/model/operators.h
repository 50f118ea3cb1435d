// What each operator is: its class, how its floating-point work is counted, and what it does with
// memory. One table; an operator that is not in it is `other`, costed by its bytes and flagged.
#pragma once

#include <string_view>

#include "model/kernel.h"

namespace hase::model {

enum class Work : uint8_t {
  kNone,         // moves or renames data
  kPerOutput,    // `weight` per output element
  kPerInput,     // `weight` per element of the first input (reductions)
  kWindow,       // window area per output element
  kConvolution,  // 2 per multiply-add
  kTransposedConvolution,
  kMatMul,
  kRecurrent,
  kDotProductAttention,
};

enum class Memory : uint8_t {
  kPlain,    // reads its inputs, writes its outputs
  kInPlace,  // may write over an input of the same size that nobody reads later
  kAlias,    // the output is the input under another shape: nothing is read or written
  kPick,     // reads only as much as it writes (Gather, Slice)
};

struct Operator {
  std::string_view name;
  OpClass op_class = OpClass::kOther;
  Work work = Work::kNone;
  int weight = 1;
  Memory memory = Memory::kPlain;
};

const Operator& FindOperator(std::string_view name);
// "relu" for "Relu"; empty if the operator is no activation.
std::string ActivationName(std::string_view op);

}  // namespace hase::model
