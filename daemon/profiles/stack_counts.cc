#include "daemon/profiles/stack_counts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/profiles/process_labels.h"
#include "daemon/samples/stack_table.h"
#include "formats/interpreters/runtime.h"
#include "formats/proc/cgroup_path.h"
#include "formats/python/layouts.h"

namespace profd {
namespace {

// "python 3.11"
std::string interpreter_text(const RawCode& code) {
  std::string text = runtime_label(name_of_runtime(code.kind));
  if (code.kind != PROFD_RUNTIME_PYTHON) return text;
  const unsigned minor = code.layout + python::kFirstMinor - 1;
  return text + " 3." + std::to_string(minor);
}

class StackCounter {
 public:
  StackCounter(const ProcessSnapshot& process, EntryFunctions& entries, SymbolBudgets& symbols)
      : process_(process), entries_(entries), symbols_(symbols) {}

  ProfileSummary count() {
    find_entries();
    for (const StackTable::Stack& stack : table().stacks()) count(stack);
    if (process_.jit) count_jit_code();
    count_interpreted_code();
    describe();
    return std::move(summary_);
  }

 private:
  const StackTable& table() const { return process_.samples.stacks; }

  // Null: no record of the mapping has arrived.
  const ProcessMapping* mapping_of(const StackTable::Stack& stack, const UserFrame& frame) const {
    const auto ids = table().mapping_ids(stack);
    if (frame.mapping >= ids.size()) return nullptr;
    const auto known = process_.image->mappings.find(ids[frame.mapping]);
    return known == process_.image->mappings.end() ? nullptr : &known->second;
  }

  // The file offset of the outermost frame's code. None: it does not lie in the executable.
  std::optional<std::uint64_t> root_offset(const StackTable::Stack& stack) {
    const auto words = table().user_frames(stack);
    const FileKey& executable = process_.image->executable;
    // Interpreted frames whose native ones are not known come last.
    const auto native =
        std::ranges::find_if_not(words.rbegin(), words.rend(), InterpretedFrame::is);
    if (native == words.rend() || executable.empty()) return std::nullopt;
    const UserFrame root = UserFrame::from_word(*native);
    const ProcessMapping* mapping = mapping_of(stack, root);
    if (mapping == nullptr || !(mapping->file_key == executable) || !mapping->file) {
      return std::nullopt;
    }
    executable_ = mapping->file;
    const auto index = static_cast<std::size_t>(words.rend() - native) - 1;
    const std::uint64_t address = code_address(root, kind_of_frame(words, index));
    return address - mapping->start + mapping->file_offset;
  }

  void find_entries() {
    std::set<std::uint64_t> roots;
    for (const StackTable::Stack& stack : table().stacks()) {
      if (reached_root(stack.user_end)) continue;
      if (const auto offset = root_offset(stack)) roots.insert(*offset);
    }
    if (roots.empty()) return;
    entry_offsets_ = entries_.select(*executable_, roots, symbols_.of(executable_->owner));
  }

  // A stack that frame pointers unwound up to the program's entry function is complete too.
  bool is_complete(const StackTable::Stack& stack) {
    if (reached_root(stack.user_end)) return true;
    const auto root = root_offset(stack);
    return root && entry_offsets_.contains(*root);
  }

  void count(const StackTable::Stack& stack) {
    if (stack.stack_class == StackClass::kKernelOnly) {
      summary_.kernel_only_samples += stack.count;
      return;
    }
    summary_.user_samples += stack.count;
    if (is_complete(stack)) {
      summary_.complete_samples += stack.count;
    } else {
      const std::string_view reason = incomplete_reason(stack.stack_class, stack.user_end);
      summary_.incomplete[std::string(reason)] += stack.count;
    }
  }

  // The innermost native frame decides whether samples count as JIT samples, since the time was
  // spent there.
  void count_jit_code() {
    JitNames jit;
    for (const JitSamples::Run& run : process_.jit->runs) {
      const StackTable::Stack& stack = table().stacks()[run.stack];
      const auto functions = process_.jit->frames_of(run, stack.user_frames);
      const auto words = table().user_frames(stack);
      const auto native = std::ranges::find_if_not(words, InterpretedFrame::is);
      if (functions.empty() || native == words.end()) continue;
      const auto index = static_cast<std::size_t>(native - words.begin());
      const bool is_named = functions[index] != JitSamples::kNoFunction;
      const UserFrame leaf = UserFrame::from_word(*native);
      const ProcessMapping* mapping = mapping_of(stack, leaf);
      if (!is_named && (mapping == nullptr || !is_likely_jit_code(*mapping))) continue;
      jit.samples += run.count;
      if (is_named) jit.named_samples += run.count;
    }
    if (jit.samples == 0) return;
    const JitProcessInfo& info = process_.jit->info;
    const Runtime* const mapped = runtime_of(*process_.image);
    jit.runtime = mapped == nullptr ? info.runtime : mapped->name;
    jit.file = info.file;
    jit.functions = info.functions;
    jit.time_dropped = process_.jit->time_dropped;
    summary_.jit = std::move(jit);
  }

  void count_interpreted_code() {
    InterpretedNames names;
    for (const StackTable::Stack& stack : table().stacks()) {
      bool is_interpreted = false;
      bool is_named = true;
      const auto words = table().user_frames(stack);
      for (const std::uint64_t word : words) {
        if (!InterpretedFrame::is(word)) continue;
        is_interpreted = true;
        is_named = is_announced(InterpretedFrame::from_word(word).code) && is_named;
      }
      if (!is_interpreted) continue;
      names.samples += stack.count;
      if (is_named) names.named_samples += stack.count;
      if (InterpretedFrame::is(words.back())) names.unanchored += stack.count;
    }
    if (names.samples == 0) return name_refused_interpreter();
    names.functions = announced_.size();
    names.runtime = interpreter_;
    summary_.interpreted = std::move(names);
  }

  // That of the first of its files whose frames are not read.
  void name_refused_interpreter() {
    if (!process_.refused_interpreters) return;
    const InterpreterFiles& refused = *process_.refused_interpreters;
    for (const auto& [id, mapping] : process_.image->mappings) {
      const auto file = refused.find(mapping.file_key);
      if (file == refused.end()) continue;
      summary_.interpreted = InterpretedNames{.runtime = file->second.text,
                                              .refused = std::string(verdict_of(file->second))};
      return;
    }
  }

  // Whether the code with this number has a name.
  bool is_announced(std::uint32_t number) {
    const auto [known, added] = announced_.try_emplace(number, false);
    if (!added || !process_.interpreted) return known->second;
    const KeptCode* const code = process_.interpreted->find(number);
    if (code == nullptr) return false;
    known->second = true;
    if (interpreter_.empty()) interpreter_ = interpreter_text(code->raw());
    return true;
  }

  // The file of a program that was replaced is deleted, as are those that JIT runtimes make.
  [[nodiscard]] bool is_likely_jit_code(const ProcessMapping& mapping) const {
    const bool is_program =
        mapping.kind == PROFD_MAPPING_FILE && mapping.file_key == process_.image->executable;
    return may_be_jit_code(mapping) && !is_program;
  }

  void describe() {
    const ProcessImage& image = *process_.image;
    summary_.pid = process_.key.tgid;
    summary_.start_time_ns = process_.key.start_ns;
    summary_.comm = image.comm.empty() ? std::string("unknown") : image.comm;
    CgroupOwner owner = owner_of_cgroup(image.cgroup);
    summary_.unit = std::move(owner.unit);
    summary_.container = std::move(owner.container);
  }

  const ProcessSnapshot& process_;
  EntryFunctions& entries_;
  SymbolBudgets& symbols_;
  std::shared_ptr<const MappedFile> executable_;
  std::set<std::uint64_t> entry_offsets_;
  boost::unordered_flat_map<std::uint32_t, bool> announced_;  // code of frames, by number
  std::string interpreter_;                                   // that runs it
  ProfileSummary summary_;
};

}  // namespace

ProfileSummary count_stacks(const ProcessSnapshot& process, EntryFunctions& entries,
                            SymbolBudgets& symbols) {
  return StackCounter(process, entries, symbols).count();
}

}  // namespace profd
