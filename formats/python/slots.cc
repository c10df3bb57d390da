// Follows the values of registers through short functions of x86-64, as far as they lead to a
// thread's state. Instructions of other kinds make registers unknown; one of an unknown length ends
// it.

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "formats/base/cursor.h"
#include "formats/python/recognize.h"

namespace profd::python {
namespace {

constexpr std::size_t kRegisters = 16;
constexpr std::uint8_t kRax = 0;
constexpr std::uint8_t kRdx = 2;
constexpr std::uint8_t kRsp = 4;
constexpr std::uint8_t kRdi = 7;
constexpr std::array<std::uint8_t, 9> kLostByCalls = {0, 1, 2, 6, 7, 8, 9, 10, 11};
constexpr std::uint16_t kTwoBytes = 0x100;  // is set in opcodes that begin with 0f
constexpr unsigned kMaxGotReads = 4;        // each may scan the relocations
constexpr std::size_t kMaxJumps = 16;
constexpr std::int64_t kKeyInTss = 4;  // of a Py_tss_t

// What is known of a register.
enum class Known : std::uint8_t {
  kNothing,
  kNumber,     // `value`
  kInt,        // the 4 bytes at the address `value`
  kThread,     // fsbase + value
  kTlsWord,    // the word at fsbase + value
  kBlock,      // add + what a call returned that got the address `value` first
  kBlockWord,  // the word there
};

struct RegisterValue {
  Known known = Known::kNothing;
  std::int64_t value = 0;
  std::int64_t add = 0;
};
using RegisterValues = std::array<RegisterValue, kRegisters>;

// A byte in two's complement.
std::int64_t sign_extended(std::uint8_t byte) { return std::int64_t{byte} - (byte >> 7 << 8); }

std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

RegisterValue moved(RegisterValue from, std::int64_t by) {
  switch (from.known) {
    case Known::kNumber:
    case Known::kThread:
      from.value = sum(from.value, by);
      return from;
    case Known::kBlock:
      from.add = sum(from.add, by);
      return from;
    default:
      return {};
  }
}

struct Instruction {
  std::uint16_t opcode = 0;
  bool is_wide = false;       // of 64 bits
  bool is_in_thread = false;  // the memory operand is relative to fsbase
  bool is_memory = false;     // the operand, else it is the register `operand`
  bool is_relative = false;   // to the next instruction
  bool has_index = false;
  bool has_base = false;     // the register `operand`
  std::uint8_t reg = 0;      // the register of ModRM.reg
  std::uint8_t group = 0;    // ModRM.reg alone: a part of some opcodes
  std::uint8_t operand = 0;  // a register: of ModRM.rm, or of the opcode
  std::int64_t displacement = 0;
  std::int64_t immediate = 0;
};

// The bytes behind the opcode: immediates, a ModRM operand.
enum class Form : std::uint8_t {
  kUnknown,
  kPlain,
  kByte,
  kInt,
  kOperand,
  kOperandByte,
  kOperandInt,
};

Form form_of_two_bytes(unsigned second) {
  if (second == 0x0b) return Form::kPlain;                                     // ud2
  if (second == 0x1e || second == 0x1f) return Form::kOperand;                 // endbr64, nop
  if (second >= 0x40 && second <= 0x4f) return Form::kOperand;                 // cmovcc
  if (second >= 0x80 && second <= 0x8f) return Form::kInt;                     // jcc
  if (second >= 0x90 && second <= 0x9f) return Form::kOperand;                 // setcc
  constexpr std::array<unsigned, 5> kOthers = {0xaf, 0xb6, 0xb7, 0xbe, 0xbf};  // imul, movzx, movsx
  return std::ranges::find(kOthers, second) == kOthers.end() ? Form::kUnknown : Form::kOperand;
}

// Of the arithmetic of the first 64 opcodes.
Form form_of_arithmetic(unsigned opcode) {
  const unsigned operands = opcode & 7;
  if (operands < 4) return Form::kOperand;
  if (operands == 4) return Form::kByte;
  return operands == 5 ? Form::kInt : Form::kUnknown;
}

Form form_of(std::uint16_t opcode, std::uint8_t group) {
  if (opcode >= kTwoBytes) return form_of_two_bytes(opcode - kTwoBytes);
  if (opcode < 0x40) return form_of_arithmetic(opcode);
  if (opcode >= 0x50 && opcode <= 0x5f) return Form::kPlain;  // push, pop
  if (opcode >= 0x70 && opcode <= 0x7f) return Form::kByte;   // jcc
  if (opcode >= 0x84 && opcode <= 0x8b) return Form::kOperand;
  if (opcode >= 0xb8 && opcode <= 0xbf) return Form::kInt;  // mov
  switch (opcode) {
    case 0x90:  // nop
    case 0xc3:  // ret
    case 0xc9:  // leave
    case 0xcc:  // int3
    case 0xf4:  // hlt
      return Form::kPlain;
    case 0x6a:  // push
    case 0xa8:  // test
    case 0xeb:  // jmp
      return Form::kByte;
    case 0x68:  // push
    case 0xa9:  // test
    case 0xe8:  // call
    case 0xe9:  // jmp
      return Form::kInt;
    case 0x63:  // movsxd
    case 0x8d:  // lea
    case 0xd1:  // shifts
    case 0xd3:
    case 0xfe:
    case 0xff:
      return Form::kOperand;
    case 0x6b:  // imul
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
      return Form::kOperandByte;
    case 0x69:  // imul
    case 0x81:
    case 0xc7:
      return Form::kOperandInt;
    case 0xf6:
      return group < 2 ? Form::kOperandByte : Form::kOperand;
    case 0xf7:
      return group < 2 ? Form::kOperandInt : Form::kOperand;
    default:
      return Form::kUnknown;
  }
}

// Decodes one instruction. Intel 64 manual, volume 2, chapter 2.
class InstructionReader {
 public:
  explicit InstructionReader(std::string_view code) : cursor_(code) {}

  // None: of an unknown length, or the code ends within it.
  [[nodiscard]] std::optional<Instruction> read() {
    const std::uint8_t first = read_prefixes();
    made_.opcode = first;
    if (first == 0x0f) {
      made_.opcode = static_cast<std::uint16_t>(kTwoBytes | cursor_.read<std::uint8_t>());
    }
    made_.operand = static_cast<std::uint8_t>((made_.opcode & 7) | (rex_ & 1) << 3);
    Form form = form_of(made_.opcode, 0);
    const bool has_operand = form >= Form::kOperand;
    if (has_operand) read_operand();
    form = form_of(made_.opcode, made_.group);
    // A prefix makes these immediates shorter, but for those of branches.
    const bool is_branch = made_.opcode == 0xe8 || made_.opcode == 0xe9 ||
                           (made_.opcode >= kTwoBytes && form == Form::kInt);
    const bool is_int = form == Form::kInt || form == Form::kOperandInt;
    if (is_int && is_short_ && !made_.is_wide && !is_branch) return std::nullopt;
    read_immediate(form);
    if (form == Form::kUnknown || !cursor_.ok()) return std::nullopt;
    return made_;
  }
  [[nodiscard]] std::size_t bytes() const { return cursor_.offset(); }

 private:
  // Returns the opcode's first byte. The other segments have no base, and the size of addresses
  // does not matter where they fit.
  std::uint8_t read_prefixes() {
    for (;;) {
      const auto byte = cursor_.read<std::uint8_t>();
      if (!cursor_.ok()) return 0;
      if ((byte & 0xf0) == 0x40) {  // REX, right before the opcode
        rex_ = byte;
        made_.is_wide = (byte & 8) != 0;
        return cursor_.read<std::uint8_t>();
      }
      constexpr std::string_view kPrefixes = "\x2e\x36\x3e\x26\x64\x65\x66\x67\xf0\xf2\xf3";
      if (kPrefixes.find(static_cast<char>(byte)) == kPrefixes.npos) return byte;
      if (byte == 0x64) made_.is_in_thread = true;
      if (byte == 0x66) is_short_ = true;
    }
  }

  void read_operand() {
    const auto byte = cursor_.read<std::uint8_t>();
    const unsigned mode = byte >> 6;
    unsigned rm = byte & 7;
    made_.group = static_cast<std::uint8_t>(byte >> 3 & 7);
    made_.reg = static_cast<std::uint8_t>(made_.group | (rex_ & 4) << 1);
    made_.is_memory = mode != 3;
    if (!made_.is_memory) {
      made_.operand = static_cast<std::uint8_t>(rm | (rex_ & 1U) << 3);
      return;
    }
    bool has_base = true;
    if (rm == kRsp) {  // a SIB byte
      const auto sib = cursor_.read<std::uint8_t>();
      const unsigned index = (sib >> 3 & 7U) | (rex_ & 2U) << 2;
      made_.has_index = index != kRsp;
      rm = sib & 7;
      has_base = mode != 0 || rm != 5;
    } else if (mode == 0 && rm == 5) {
      made_.is_relative = true;
      has_base = false;
    }
    made_.has_base = has_base;
    made_.operand = static_cast<std::uint8_t>(rm | (rex_ & 1U) << 3);
    if (mode == 1) {
      made_.displacement = sign_extended(cursor_.read<std::uint8_t>());
    } else if (mode == 2 || !has_base) {
      made_.displacement = static_cast<std::int32_t>(cursor_.read<std::uint32_t>());
    }
  }

  void read_immediate(Form form) {
    const bool is_mov = made_.opcode >= 0xb8 && made_.opcode <= 0xbf;
    if (is_mov && made_.is_wide) {
      made_.immediate = static_cast<std::int64_t>(cursor_.read<std::uint64_t>());
    } else if (form == Form::kInt || form == Form::kOperandInt) {
      made_.immediate = static_cast<std::int32_t>(cursor_.read<std::uint32_t>());
    } else if (form == Form::kByte || form == Form::kOperandByte) {
      made_.immediate = sign_extended(cursor_.read<std::uint8_t>());
    }
  }

  Cursor cursor_;
  Instruction made_;
  unsigned rex_ = 0;
  bool is_short_ = false;
};

// Goes through a function once from its start to its end. A jump carries the registers to its
// target further on.
class RegisterWalk {
 public:
  RegisterWalk(std::span<const std::uint8_t> code, std::uint64_t address, GotTarget got,
               const void* context)
      : code_(reinterpret_cast<const char*>(code.data()), std::min(code.size(), kMaxFunctionBytes)),
        address_(address),
        got_(got),
        context_(context) {}

  void run() {
    while (at_ < code_.size()) {
      if (!is_reached_) arrive();
      InstructionReader reader(code_.substr(at_));
      const auto instruction = reader.read();
      if (!instruction) return;
      at_ += reader.bytes();
      execute(*instruction);
    }
  }

  // The first arguments of what it calls, and jumps to outside.
  [[nodiscard]] const std::vector<RegisterValue>& arguments() const { return arguments_; }
  [[nodiscard]] const std::vector<RegisterValue>& results() const { return results_; }

 private:
  struct Jump {
    std::size_t to;
    RegisterValues registers;
  };

  // Behind a jump or a return: what the registers are is known from a jump to here.
  void arrive() {
    const auto jump = std::ranges::find(jumps_, at_, &Jump::to);
    is_reached_ = jump != jumps_.end();
    registers_ = is_reached_ ? jump->registers : RegisterValues{};
  }

  void execute(const Instruction& instruction) {
    if (instruction.opcode < 0x40) return calculate(instruction);
    if (!branch(instruction)) set_registers(instruction);
  }

  // The base of a memory operand.
  [[nodiscard]] RegisterValue base_of(const Instruction& instruction) const {
    if (instruction.has_index) return {};
    if (instruction.has_base) return registers_[instruction.operand];
    const std::uint64_t next = instruction.is_relative ? address_ + at_ : 0;
    return {Known::kNumber, static_cast<std::int64_t>(next), 0};
  }

  [[nodiscard]] RegisterValue loaded(const Instruction& instruction) {
    const RegisterValue place = moved(base_of(instruction), instruction.displacement);
    if (instruction.is_in_thread) {
      if (place.known != Known::kNumber || !instruction.is_wide) return {};
      // The first word of a thread's control block is its own address.
      return {place.value == 0 ? Known::kThread : Known::kTlsWord, place.value, 0};
    }
    if (place.known == Known::kNumber) {
      return instruction.is_wide ? pointer_at(place.value)
                                 : RegisterValue{Known::kInt, place.value, 0};
    }
    if (!instruction.is_wide) return {};
    if (place.known == Known::kThread) return {Known::kTlsWord, place.value, 0};
    if (place.known == Known::kBlock) return {Known::kBlockWord, place.value, place.add};
    return {};
  }

  [[nodiscard]] RegisterValue pointer_at(std::int64_t address) {
    if (got_ == nullptr || got_reads_ == kMaxGotReads) return {};
    ++got_reads_;
    const auto target = got_(context_, static_cast<std::uint64_t>(address));
    if (!target) return {};
    return {Known::kNumber, static_cast<std::int64_t>(*target), 0};
  }

  // The value of a register, of 4 or 8 bytes.
  [[nodiscard]] RegisterValue copied(const Instruction& instruction, std::uint8_t from) const {
    RegisterValue value = registers_[from];
    if (instruction.is_wide || value.known == Known::kInt) return value;
    if (value.known != Known::kNumber) return {};
    value.value &= std::numeric_limits<std::uint32_t>::max();
    return value;
  }

  void calculate(const Instruction& instruction) {
    const unsigned operation = instruction.opcode >> 3;  // 0: add, 7: cmp
    if (operation == 7) return;
    RegisterValue result;
    switch (instruction.opcode & 7) {
      case 0:
      case 1:
        if (!instruction.is_memory) registers_[instruction.operand] = {};
        return;
      case 3:  // an offset and the thread's base, or a pointer of the GOT
        if (operation == 0 && instruction.is_memory) {
          const RegisterValue number = registers_[instruction.reg];
          if (number.known == Known::kNumber) result = moved(loaded(instruction), number.value);
        }
        [[fallthrough]];
      case 2:
        registers_[instruction.reg] = result;
        return;
      default: {  // of rax and an immediate
        const bool is_add = instruction.opcode == 0x05 && instruction.is_wide;
        if (is_add) result = moved(registers_[kRax], instruction.immediate);
        registers_[kRax] = result;
      }
    }
  }

  // True: the instruction is a call, a jump or a return.
  bool branch(const Instruction& instruction) {
    const std::uint16_t opcode = instruction.opcode;
    const bool is_conditional = (opcode >= 0x70 && opcode <= 0x7f) ||
                                (opcode >= (kTwoBytes | 0x80) && opcode <= (kTwoBytes | 0x8f));
    if (is_conditional) {
      keep_for(instruction.immediate);
    } else if (opcode == 0xe9 || opcode == 0xeb) {
      if (!keep_for(instruction.immediate)) arguments_.push_back(registers_[kRdi]);
      is_reached_ = false;
    } else if (opcode == 0xff && instruction.group == 4) {
      arguments_.push_back(registers_[kRdi]);
      is_reached_ = false;
    } else if (opcode == 0xe8 || (opcode == 0xff && instruction.group == 2)) {
      call();
    } else if (opcode == 0xc3) {
      results_.push_back(registers_[kRax]);
      is_reached_ = false;
    } else if (opcode == 0xcc || opcode == 0xf4 || opcode == (kTwoBytes | 0x0b)) {
      is_reached_ = false;
    } else {
      return false;
    }
    return true;
  }

  // False: the target is not in the function.
  bool keep_for(std::int64_t distance) {
    const std::int64_t target = sum(static_cast<std::int64_t>(at_), distance);
    if (target < 0 || static_cast<std::size_t>(target) >= code_.size()) return false;
    if (jumps_.size() < kMaxJumps) {
      jumps_.push_back({static_cast<std::size_t>(target), registers_});
    }
    return true;
  }

  void call() {
    const RegisterValue argument = registers_[kRdi];
    arguments_.push_back(argument);
    for (const std::uint8_t lost : kLostByCalls) registers_[lost] = {};
    if (argument.known == Known::kNumber) registers_[kRax] = {Known::kBlock, argument.value, 0};
  }

  void set_registers(const Instruction& instruction) {
    const std::uint16_t opcode = instruction.opcode;
    const std::uint8_t operand = instruction.operand;
    if (opcode >= 0xb8 && opcode <= 0xbf) {  // mov imm
      const std::int64_t mask =
          instruction.is_wide ? -1 : std::int64_t{std::numeric_limits<std::uint32_t>::max()};
      registers_[operand] = {Known::kNumber, instruction.immediate & mask, 0};
    } else if (opcode == 0x8b) {  // mov to a register
      registers_[instruction.reg] =
          instruction.is_memory ? loaded(instruction) : copied(instruction, operand);
    } else if (opcode == 0x8d) {  // lea
      registers_[instruction.reg] = moved(base_of(instruction), instruction.displacement);
    } else if (opcode == 0x89 && !instruction.is_memory) {  // mov from a register
      registers_[operand] = copied(instruction, instruction.reg);
    } else if (opcode == 0xc7 && !instruction.is_memory) {  // mov imm32
      registers_[operand] = {Known::kNumber, instruction.immediate, 0};
      registers_[operand] = copied(instruction, operand);
    } else if (opcode == 0x80 || opcode == 0x81 || opcode == 0x83) {
      add_immediate(instruction);
    } else {
      forget_registers(instruction);
    }
  }

  void add_immediate(const Instruction& instruction) {
    constexpr unsigned kAdd = 0;
    constexpr unsigned kSub = 5;
    constexpr unsigned kCmp = 7;
    if (instruction.is_memory || instruction.group == kCmp) return;
    RegisterValue& value = registers_[instruction.operand];
    const bool is_known =
        instruction.is_wide && (instruction.group == kAdd || instruction.group == kSub);
    const std::int64_t by =
        instruction.group == kSub ? -instruction.immediate : instruction.immediate;
    value = is_known ? moved(value, by) : RegisterValue{};
  }

  // What an instruction may write that is not followed.
  void forget_registers(const Instruction& instruction) {
    const std::uint16_t opcode = instruction.opcode;
    if (writes_nothing(instruction)) return;
    const bool is_pop = opcode >= 0x58 && opcode <= 0x5f;
    if (is_pop || !instruction.is_memory) registers_[instruction.operand] = {};
    // Those with a part of the opcode in ModRM.reg. mul and div write rax and rdx.
    constexpr std::array<std::uint16_t, 10> kGroups = {0xc0, 0xc1, 0xc6, 0xc7, 0xd1,
                                                       0xd3, 0xf6, 0xf7, 0xfe, 0xff};
    const bool is_setcc = opcode >= (kTwoBytes | 0x90) && opcode <= (kTwoBytes | 0x9f);
    const bool is_group = std::ranges::find(kGroups, opcode) != kGroups.end();
    const bool is_store = opcode == 0x88 || opcode == 0x89;
    if ((opcode == 0xf6 || opcode == 0xf7) && instruction.group >= 4) {
      registers_[kRax] = {};
      registers_[kRdx] = {};
    }
    if (!is_pop && !is_setcc && !is_group && !is_store) registers_[instruction.reg] = {};
  }

  // No general register but rsp and rbp, of which nothing is known.
  static bool writes_nothing(const Instruction& instruction) {
    const std::uint16_t opcode = instruction.opcode;
    constexpr std::array<std::uint16_t, 10> kOthers = {
        0x68, 0x6a, 0x84, 0x85, 0x90, 0xa8, 0xa9, 0xc9, kTwoBytes | 0x1e, kTwoBytes | 0x1f};
    const bool is_push =
        (opcode >= 0x50 && opcode <= 0x57) || (opcode == 0xff && instruction.group == 6);
    const bool is_test = (opcode == 0xf6 || opcode == 0xf7) && instruction.group < 2;
    const bool is_store = (opcode == 0x88 || opcode == 0x89) && instruction.is_memory;
    return is_push || is_test || is_store || std::ranges::find(kOthers, opcode) != kOthers.end();
  }

  std::string_view code_;
  std::uint64_t address_;
  GotTarget got_;
  const void* context_;
  unsigned got_reads_ = 0;
  std::size_t at_ = 0;
  bool is_reached_ = true;
  RegisterValues registers_{};
  std::vector<Jump> jumps_;
  std::vector<RegisterValue> arguments_;
  std::vector<RegisterValue> results_;
};

// The thread-local variable whose value a function returns. Those of a program, and of libraries
// that are loaded with it, lie below fsbase; above it is what libc has, as the stack protector's
// word.
std::optional<Slot> thread_local_slot(const RegisterValue& value) {
  using Add = std::numeric_limits<std::int16_t>;
  if (value.known == Known::kTlsWord && value.value < 0) {
    return Slot{.form = PROFD_SLOT_TLS, .where = value.value, .add = 0};
  }
  if (value.known == Known::kBlockWord && value.add >= Add::min() && value.add <= Add::max()) {
    return Slot{.form = PROFD_SLOT_DYNAMIC_TLS,
                .where = value.value,
                .add = static_cast<std::int16_t>(value.add)};
  }
  return std::nullopt;
}

std::optional<Slot> first_thread_local_slot(const std::vector<RegisterValue>& results) {
  for (const RegisterValue& result : results) {
    if (const auto slot = thread_local_slot(result)) return slot;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Slot> find_gilstate_slot(std::span<const std::uint8_t> code, std::uint64_t address,
                                       std::uint64_t key, GotTarget got, const void* context) {
  RegisterWalk walk(code, address, got, context);
  walk.run();
  if (key == 0) {
    if (const auto slot = first_thread_local_slot(walk.results())) return slot;
  }
  // The key, for pthread_getspecific(); or the Py_tss_t that has it, for functions of CPython.
  for (const RegisterValue& argument : walk.arguments()) {
    const bool is_key = argument.known == Known::kInt;
    if (!is_key && argument.known != Known::kNumber) continue;
    const std::int64_t where = is_key ? argument.value : sum(argument.value, kKeyInTss);
    if (key != 0 && static_cast<std::uint64_t>(where) != key) continue;
    return Slot{.form = PROFD_SLOT_KEY, .where = where, .add = 0};
  }
  return std::nullopt;
}

std::optional<Slot> find_current_slot(std::span<const std::uint8_t> code, std::uint64_t address) {
  RegisterWalk walk(code, address, nullptr, nullptr);
  walk.run();
  return first_thread_local_slot(walk.results());
}

}  // namespace profd::python
