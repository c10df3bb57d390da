#include "formats/symbols/demangle.h"

#include <algorithm>
#include <array>
#include <csetjmp>

// Else libiberty.h declares basename() itself, in another way than g++'s <cstring>.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

#include "formats/base/utf8_text.h"
#include "formats/symbols/code_names.h"

namespace profd {
namespace {

// Where a demangler writes to. It is left when one byte more than the limit is there.
struct Demangled {
  std::array<char, kMaxCodeNameBytes + 1> text;
  std::size_t bytes;
  bool is_rust;
  std::jmp_buf full;
};

// Of libiberty.
using Demangler = int (*)(const char* name, int options, demangle_callbackref callback,
                          void* opaque);

// rust_demangle_callback() has an identifier that is not ASCII on the heap while it sends it, so it
// is left at the next part: one in ASCII always follows.
bool is_on_heap(const Demangled& to, const char* text, std::size_t bytes) {
  return to.is_rust &&
         std::any_of(text, text + bytes, [](char c) { return static_cast<signed char>(c) < 0; });
}

void append_part(const char* text, std::size_t bytes, void* opaque) {
  auto* const to = static_cast<Demangled*>(opaque);
  const std::size_t room = to->text.size() - to->bytes;
  const std::size_t copied = std::min(bytes, room);
  std::copy_n(text, copied, to->text.data() + to->bytes);  // `text` may be null if there is none
  to->bytes += copied;
  if (copied == room && !is_on_heap(*to, text, bytes)) std::longjmp(to->full, 1);
}

// No object here may need its destructor: longjmp() does not run it. False: no name of this kind.
bool run_demangler(Demangler demangler, const char* name, Demangled* to) {
  to->bytes = 0;
  to->is_rust = demangler == &::rust_demangle_callback;
  if (setjmp(to->full) != 0) return true;
  // The limit of recursion refuses all C++ names above 1,024 bytes; kMaxMangledBytes limits these
  // as well. A Rust name can refer to itself, so that only the limit ends it.
  const int options = to->is_rust ? 0 : DMGL_NO_RECURSE_LIMIT;
  return demangler(name, options, &append_part, to) != 0;
}

bool is_all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == text.npos;
}

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

// Whether `suffix`, from a dot to the end, is that of a clone or of a part of a function.
bool is_clone_suffix(std::string_view suffix) {
  if (suffix == ".cold" || suffix == ".localalias") return true;
  constexpr std::array<std::string_view, 6> kNumbered = {
      ".cold.", ".part.", ".isra.", ".constprop.", ".lto_priv.", ".localalias."};
  const auto numbered = std::ranges::find_if(
      kNumbered, [suffix](std::string_view start) { return suffix.starts_with(start); });
  if (numbered != kNumbered.end()) return is_all_of(suffix.substr(numbered->size()), kDigits);
  constexpr std::string_view kLlvm = ".llvm.";
  return suffix.starts_with(kLlvm) && is_all_of(suffix.substr(kLlvm.size()), kHexDigits);
}

// The name without its last suffix; the same name if it has none.
std::string_view without_suffix(std::string_view name) {
  const auto last_dot = name.rfind('.');
  if (last_dot == name.npos || last_dot == 0) return name;
  if (is_clone_suffix(name.substr(last_dot))) return name.substr(0, last_dot);
  const auto dot = name.rfind('.', last_dot - 1);
  if (dot == name.npos || dot == 0) return name;
  return is_clone_suffix(name.substr(dot)) ? name.substr(0, dot) : name;
}

// C++ and the older Rust form begin with _Z, the newer Rust form with _R.
bool demangle(std::string_view name, Demangled* to) {
  const std::string text(name);
  if (run_demangler(&::rust_demangle_callback, text.c_str(), to)) return true;
  return !text.starts_with("_R") && run_demangler(&::cplus_demangle_v3_callback, text.c_str(), to);
}

}  // namespace

bool is_mangled(std::string_view system_name) {
  return system_name.starts_with("_Z") || system_name.starts_with("_R");
}

std::string_view without_suffixes(std::string_view system_name) {
  const auto version = system_name.find('@');
  if (version != system_name.npos && version != 0) system_name = system_name.substr(0, version);
  while (true) {
    const std::string_view shorter = without_suffix(system_name);
    if (shorter.size() == system_name.size()) return system_name;
    system_name = shorter;
  }
}

std::string shown_name(std::string_view system_name) {
  const std::string_view name = without_suffixes(system_name);
  Demangled demangled;
  const bool has_form = is_mangled(name) && name.size() <= kMaxMangledBytes;
  if (!has_form || !demangle(name, &demangled) || demangled.bytes == 0) {
    return printable_utf8(name, kMaxCodeNameBytes);
  }
  return printable_utf8({demangled.text.data(), demangled.bytes}, kMaxCodeNameBytes);
}

}  // namespace profd
