#include "formats/python/recognize.h"

#include <algorithm>
#include <array>
#include <string>

#include "formats/elf/exported_symbols.h"
#include "formats/python/layouts.h"
#include "formats/python/prologue.h"
#include "formats/unwind/other_part.h"

namespace profd {
namespace {

enum PythonSymbol : std::size_t {
  kRuntimeSymbol,
  kVersionSymbol,  // 3.11 and later
  kCodeTypeSymbol,
  kEvalSymbol,
  kGilstateSymbol,
  kCurrentSymbol,  // 3.12 and later
  kPythonSymbols,
};

// Extension modules link to them, so they are exported.
constexpr std::array<std::string_view, kPythonSymbols> kPythonNames = {
    "_PyRuntime",
    "Py_Version",
    "PyCode_Type",
    "_PyEval_EvalFrameDefault",
    "PyGILState_GetThisThreadState",
    "_PyThreadState_GetCurrent",
};

// The functions that set up thread-local storage in static programs, by libc.
constexpr std::array<std::string_view, 2> kStaticLibcNames = {"__libc_setup_tls", "__init_tls"};

constexpr const char* kRuntimeSection = ".PyRuntime";  // 3.10 and later
constexpr std::string_view kCookie = "xdebugpy";       // of struct _Py_DebugOffsets
constexpr std::uint64_t kBasicsizeInType = 32;         // PyTypeObject.tp_basicsize
constexpr unsigned kFirstWithCurrentState = 12;
constexpr std::size_t kMaxDebugOffsets = 1024;
constexpr std::uint64_t kMaxLoopBytes = std::uint64_t{1} << 20;

// How struct _Py_DebugOffsets begins, in each version that has it.
struct DebugHeader {
  std::array<char, 8> cookie{};
  std::uint64_t version = 0;
  std::uint64_t free_threaded = 0;
};

std::optional<std::uint64_t> got_target(const void* exports, std::uint64_t entry) {
  return static_cast<const ExportedSymbols*>(exports)->target_of_got(entry);
}

class PythonRecognition {
 public:
  explicit PythonRecognition(const CodeFile& file) : file_(file), exports_(file) {}

  [[nodiscard]] FoundRuntime run() {
    FoundRuntime found;
    if (!find_symbols()) return found;
    found.kind = PROFD_RUNTIME_PYTHON;
    found.verdict = examine(found);
    if (found.verdict != RuntimeVerdict::kKnown) found.runtime = {};
    return found;
  }

 private:
  // False: the file is not CPython.
  bool find_symbols() {
    symbols_[kRuntimeSymbol] = exports_.find(kPythonNames[kRuntimeSymbol]);
    if (symbols_[kRuntimeSymbol]) {
      for (std::size_t i = kRuntimeSymbol + 1; i < kPythonSymbols; ++i) {
        symbols_[i] = exports_.find(kPythonNames[i]);
      }
      runtime_ = symbols_[kRuntimeSymbol]->st_value;
      return true;
    }
    const Elf64_Shdr* const section = file_.find_section(kRuntimeSection);
    if (section == nullptr) return false;
    std::ranges::copy(find_in_symtab(file_, kPythonNames), symbols_.begin());
    runtime_ = symbols_[kRuntimeSymbol] ? symbols_[kRuntimeSymbol]->st_value : section->sh_addr;
    return true;
  }

  RuntimeVerdict examine(FoundRuntime& found) {
    const RuntimeVerdict versioned = find_version(found);
    if (versioned != RuntimeVerdict::kKnown) return versioned;
    for (const std::size_t needed : {kCodeTypeSymbol, kEvalSymbol, kGilstateSymbol}) {
      if (!symbols_[needed]) return RuntimeVerdict::kNoSymbols;
    }
    if (!has_known_layout()) return RuntimeVerdict::kUnknownLayout;
    profd_runtime& runtime = found.runtime;
    runtime.kind = PROFD_RUNTIME_PYTHON;
    runtime.layout = python::layout_number(minor_);
    runtime.code_type = symbols_[kCodeTypeSymbol]->st_value;
    if (!find_loop(runtime)) return RuntimeVerdict::kMalformed;
    if (version_->layout.has_prologue != 0) find_entry(runtime);
    const auto libc = find_libc();
    if (!libc || !find_slots(runtime)) return RuntimeVerdict::kNoThreadState;
    runtime.libc = *libc;
    // Last, since it costs more than all else.
    const FunctionPart part =
        find_other_part(file_, symbols_[kEvalSymbol]->st_value, runtime.loop[0].bytes);
    runtime.loop[1] = {.start = part.start, .bytes = part.bytes};
    return RuntimeVerdict::kKnown;
  }

  // kKnown: version_ and minor_ are set. Sets found.version as far as it is known.
  RuntimeVerdict find_version(FoundRuntime& found) {
    DebugHeader header;
    const bool has_header = read(runtime_, header) &&
                            std::string_view(header.cookie.data(), header.cookie.size()) == kCookie;
    std::uint64_t hex = 0;  // PY_VERSION_HEX: 0x030b02f0 is 3.11.2 final
    const auto& symbol = symbols_[kVersionSymbol];
    if (symbol && !read(symbol->st_value, hex)) return RuntimeVerdict::kMalformed;
    if (has_header && symbol && hex != header.version) return RuntimeVerdict::kMalformed;
    if (has_header) hex = header.version;
    if (hex > 0xffffffff) return RuntimeVerdict::kMalformed;
    found.version = static_cast<std::uint32_t>(hex >> 8);
    if (found.version == 0 && symbols_[kRuntimeSymbol]) {
      found.version = version_of_size(symbols_[kRuntimeSymbol]->st_size);
    }
    if (found.version == 0 && !symbols_[kRuntimeSymbol]) return RuntimeVerdict::kNoSymbols;
    minor_ = found.version >> 8 & 0xff;
    version_ = found.version >> 16 == 3 ? python::find_version(minor_) : nullptr;
    if (version_ == nullptr) return RuntimeVerdict::kUnknownVersion;
    if (has_header && header.free_threaded != 0) return RuntimeVerdict::kFreeThreaded;
    const bool should_have_header = version_->debug_offsets != 0;
    return has_header == should_have_header ? RuntimeVerdict::kKnown
                                            : RuntimeVerdict::kUnknownLayout;
  }

  // Of 3.8 to 3.10; 0: none.
  static std::uint32_t version_of_size(std::uint64_t bytes) {
    for (unsigned minor = python::kFirstMinor; minor <= python::kLastMinor; ++minor) {
      const python::Version* const version = python::find_version(minor);
      const bool is_it = version->runtime_bytes != 0 && version->runtime_bytes == bytes;
      if (is_it) return std::uint32_t{3} << 16 | minor << 8 | kUnknownPatch;
    }
    return 0;
  }

  [[nodiscard]] bool has_known_layout() const {
    std::uint64_t basicsize = 0;
    if (!read(symbols_[kCodeTypeSymbol]->st_value + kBasicsizeInType, basicsize)) return false;
    if (basicsize != version_->code_basicsize) return false;
    if (version_->debug_offsets == 0) return true;
    std::string offsets(kMaxDebugOffsets, '\0');
    offsets.resize(file_.read_loaded(runtime_, offsets.data(), offsets.size()));
    return python::agrees_with_debug_offsets(*version_, minor_, offsets);
  }

  // False: the symbol is not in code.
  [[nodiscard]] bool find_loop(profd_runtime& runtime) const {
    const Elf64_Sym& eval = *symbols_[kEvalSymbol];
    const CodeSegment* const segment = file_.code().segment_of(eval.st_value);
    if (segment == nullptr) return false;
    const std::uint64_t skipped = eval.st_value - segment->vaddr;
    const std::uint64_t bytes = std::min(eval.st_size, segment->bytes - skipped);
    runtime.bias = segment->offset - segment->vaddr;
    runtime.loop[0] = {.start = static_cast<std::uint32_t>(segment->offset + skipped),
                       .bytes = static_cast<std::uint32_t>(bytes)};
    return true;
  }

  void find_entry(profd_runtime& runtime) const {
    const std::uint64_t bytes = std::min<std::uint64_t>(runtime.loop[0].bytes, kMaxLoopBytes);
    const std::string loop = file_.read(runtime.loop[0].start, bytes);
    runtime.prologue = python::find_prologue(loop, version_->layout);
  }

  // Which libc's threads they are. None: it is a static program of an unknown one. The file does
  // not say which version of musl it is: the current one is assumed.
  [[nodiscard]] std::optional<std::uint8_t> find_libc() const {
    if (exports_.needs("libc.so.6")) return PROFD_LIBC_GLIBC;
    if (exports_.needs("libc.musl-") || exports_.needs("libc.so")) return PROFD_LIBC_MUSL;
    if (exports_.needs_any()) return PROFD_LIBC_GLIBC;
    const auto found = find_in_symtab(file_, kStaticLibcNames);
    if (found[0]) return PROFD_LIBC_GLIBC;
    if (found[1]) return PROFD_LIBC_MUSL;
    return std::nullopt;
  }

  // The exact state first, since the gilstate of a subinterpreter's thread may be another one; but
  // a thread without the GIL has only that.
  [[nodiscard]] bool find_slots(profd_runtime& runtime) {
    const std::uint64_t key = version_->key == 0 ? 0 : runtime_ + version_->key;
    const auto& gilstate = *symbols_[kGilstateSymbol];
    const auto other = python::find_gilstate_slot(code_of(gilstate), gilstate.st_value, key,
                                                  &got_target, &exports_);
    if (!other || !is_usable(*other)) return false;
    set_slot(runtime, 1, *other);
    const auto& current = symbols_[kCurrentSymbol];
    if (!current || minor_ < kFirstWithCurrentState) return true;
    const auto exact = python::find_current_slot(code_of(*current), current->st_value);
    if (exact && is_usable(*exact)) set_slot(runtime, 0, *exact);
    return true;
  }

  [[nodiscard]] bool is_usable(const python::Slot& slot) const {
    return slot.form != PROFD_SLOT_DYNAMIC_TLS ||
           exports_.is_tls_module(static_cast<std::uint64_t>(slot.where));
  }

  static void set_slot(profd_runtime& runtime, std::size_t index, const python::Slot& slot) {
    runtime.slot[index] = slot.where;
    runtime.slot_add[index] = slot.add;
    runtime.slot_form[index] = slot.form;
  }

  // The bytes of a function. Valid until the next call.
  [[nodiscard]] std::span<const std::uint8_t> code_of(const Elf64_Sym& function) {
    const std::uint64_t wanted = function.st_size == 0
                                     ? code_.size()
                                     : std::min<std::uint64_t>(function.st_size, code_.size());
    return std::span(code_).first(file_.read_loaded(function.st_value, code_.data(), wanted));
  }

  template <class T>
  [[nodiscard]] bool read(std::uint64_t vaddr, T& value) const {
    return file_.read_loaded(vaddr, &value, sizeof value) == sizeof value;
  }

  const CodeFile& file_;
  ExportedSymbols exports_;
  std::array<std::optional<Elf64_Sym>, kPythonSymbols> symbols_{};
  std::uint64_t runtime_ = 0;  // vaddr
  unsigned minor_ = 0;
  const python::Version* version_ = nullptr;
  std::array<std::uint8_t, python::kMaxFunctionBytes> code_{};  // of the latest function
};

}  // namespace

Result<FoundRuntime> recognize_python(const CodeFile& file) {
  return PythonRecognition(file).run();
}

}  // namespace profd
