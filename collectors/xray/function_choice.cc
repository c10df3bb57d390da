#include "collectors/xray/function_choice.h"

#include <cstdlib>
#include <memory>

#include <cxxabi.h>
#include <re2/re2.h>

namespace profd::xray {
namespace {

constexpr std::int64_t kMaxPatternMemory = std::int64_t{4} << 20;

RE2::Options options() {
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(kMaxPatternMemory);
  return options;
}

Error invalid_pattern(std::string_view pattern, const std::string& why) {
  return fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(pattern.substr(0, 64)) + "\" is not a regular expression: " + why,
              "the syntax is RE2's: (^|::)parse, Cache::.*");
}

// "Cache::get" for "Cache::get(int) const". A name without arguments is not changed.
std::string_view without_arguments(std::string_view name) {
  const std::size_t end = name.rfind(')');
  int open = 0;
  for (std::size_t at = end; at != std::string_view::npos && at < name.size(); --at) {
    if (name[at] == ')') ++open;
    if (name[at] == '(' && --open == 0) return name.substr(0, at);
  }
  return name;
}

bool matches(const std::string& name, const RE2& expression) {
  const std::string_view bare = without_arguments(name);
  return RE2::PartialMatch(name, expression) ||
         RE2::PartialMatch(re2::StringPiece(bare.data(), bare.size()), expression);
}

}  // namespace

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? std::string(text.get()) : name;
}

Result<void> check_pattern(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_pattern(pattern, "it is longer than 1024 bytes");
  }
  const RE2 expression(re2::StringPiece(pattern.data(), pattern.size()), options());
  if (!expression.ok()) return invalid_pattern(pattern, expression.error());
  return {};
}

Result<std::vector<std::int32_t>> choose_functions(const std::vector<std::string>& names,
                                                   std::string_view pattern) {
  const RE2 expression(re2::StringPiece(pattern.data(), pattern.size()), options());
  if (!expression.ok()) return invalid_pattern(pattern, expression.error());
  std::vector<std::int32_t> chosen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || !matches(demangled(names[i]), expression)) continue;
    chosen.push_back(static_cast<std::int32_t>(i + 1));
  }
  return chosen;
}

}  // namespace profd::xray
