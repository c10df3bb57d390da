#include "ctl/views/short_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <utility>

namespace profd {
namespace {

// A longer name is no language's.
constexpr std::size_t kMaxShortenedBytes = 4096;

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || c == '_' || c == '$' || byte >= 0x80;
}
bool is_lower_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::islower(byte) != 0 || std::isdigit(byte) != 0 || c == '_';
  });
}
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

// "::h0123456789abcdef" ends the names of the older Rust form.
std::string_view without_rust_hash(std::string_view name) {
  constexpr std::size_t kHashBytes = 19;
  if (name.size() <= kHashBytes) return name;
  const std::string_view end = name.substr(name.size() - kHashBytes);
  const bool is_hash = end.starts_with("::h") &&
                       end.find_first_not_of("0123456789abcdef", 3) == std::string_view::npos;
  return is_hash ? name.substr(0, name.size() - kHashBytes) : name;
}

// "operator<<", "operator()", ...: the length of the operator at the start of `text`; 0: none.
std::size_t operator_bytes(std::string_view text) {
  constexpr std::string_view kOperator = "operator";
  if (!text.starts_with(kOperator)) return 0;
  constexpr auto kSigns = std::to_array<std::string_view>(
      {"<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">"});
  const std::string_view rest = text.substr(kOperator.size());
  for (const std::string_view sign : kSigns) {
    if (rest.starts_with(sign)) return kOperator.size() + sign.size();
  }
  return 0;
}

// What parentheses hold that are no parameters: "(anonymous namespace)", and Go's "(*Map)".
bool is_part_of_name(std::string_view in_parentheses) {
  return in_parentheses.starts_with("(anonymous ") || in_parentheses.starts_with("(*");
}

// The end of the group that starts at `at` with an opening bracket: after the bracket that closes
// it, or the end of the text. "->" closes nothing.
std::size_t end_of_group(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<' || c == '(' || c == '[') ++depth;
    const bool is_arrow = c == '>' && at > 0 && (text[at - 1] == '-' || text[at - 1] == '=');
    if ((c == '>' || c == ')' || c == ']') && !is_arrow && --depth == 0) return at + 1;
  }
  return text.size();
}

std::string shortened_type(std::string_view text);

// "<A as B>::f" begins with a group that is the type itself.
std::string of_qualified_type(std::string_view group) {
  if (group.starts_with('<')) group.remove_prefix(1);
  if (group.ends_with('>')) group.remove_suffix(1);
  std::string_view type = group;
  std::string_view trait;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i] == '<' || group[i] == '(') ++depth;
    if ((group[i] == '>' || group[i] == ')') && depth > 0) --depth;
    if (depth == 0 && group.substr(i).starts_with(" as ")) {
      type = group.substr(0, i);
      trait = group.substr(i + 4);
      break;
    }
  }
  if (type.starts_with("impl ")) {
    const std::size_t end = type.find(" for ");
    type = end == std::string_view::npos ? type.substr(5) : type.substr(end + 5);
  }
  while (type.starts_with('&') || type.starts_with("mut ") || type.starts_with("dyn ")) {
    type.remove_prefix(type.starts_with('&') ? 1 : 4);
  }
  // A parameter of a generic function says nothing.
  const bool is_parameter = type.size() <= 2 && !type.empty() && is_upper(type.front());
  return shortened_type(is_parameter && !trait.empty() ? trait : type);
}

void drop_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

void replace_all(std::string& text, std::string_view part, std::string_view by) {
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + by.size())) {
    text.replace(at, part.size(), by);
  }
}

// Whether '<' at `at` begins template arguments: it follows a name.
bool is_after_name(std::string_view text, std::size_t at) {
  return at > 0 && (is_word(text[at - 1]) || text[at - 1] == ':' || text[at - 1] == '~' ||
                    text[at - 1] == ']' || text[at - 1] == '}');
}

// Copies the text without its groups. Where one holds a part of the name, the part stays.
std::string without_groups(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_word_start = at == 0 || !is_word(text[at - 1]);
    if (const std::size_t bytes = is_word_start ? operator_bytes(text.substr(at)) : 0; bytes != 0) {
      result += text.substr(at, bytes);
      at += bytes;
      // "operator<< <int>(...)"
      if (text.substr(at).starts_with(" <")) at = end_of_group(text, at + 1);
      continue;
    }
    const char c = text[at];
    if (c != '<' && c != '(' && c != '[') {
      result += c;
      ++at;
      continue;
    }
    const std::size_t end = end_of_group(text, at);
    const std::string_view group = text.substr(at, end - at);
    if (c == '(' && is_part_of_name(group)) {
      result += group.starts_with("(*")
                    ? "(" + without_groups(group.substr(1, group.size() - 2)) + ")"
                    : std::string(group);
    } else if (c == '<' && !is_after_name(text, at)) {
      const bool is_special = group.starts_with("<lambda") || !group.ends_with('>');
      result += is_special ? std::string(group) : of_qualified_type(group);
    } else if (c == '<' && group.starts_with("<impl ") && result.ends_with("::")) {
      result = of_qualified_type(group);
    } else if (result.ends_with("::") && c == '<') {
      result.resize(result.size() - 2);  // Rust's f::<T>
    }
    at = end;
  }
  return result;
}

// Of a type or function in any language, without return type.
std::string shortened_type(std::string_view text) {
  std::string name(text);
  for (const std::string_view inline_namespace : {"__cxx11::", "__1::"}) {
    drop_all(name, inline_namespace);
  }
  constexpr auto kAliases = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"std::basic_string<char,", "std::string<"},
       {"std::basic_string_view<char,", "std::string_view<"},
       {"std::basic_ostream<char,", "std::ostream<"},
       {"std::basic_istream<char,", "std::istream<"}});
  for (const auto& [part, by] : kAliases) replace_all(name, part, by);
  return without_groups(name);
}

// Where the name begins behind a return type: after the last blank outside of brackets that is not
// part of the name itself.
std::string_view without_return_type(std::string_view name) {
  for (const std::string_view special : {"non-virtual thunk to ", "virtual thunk to ",
                                         "vtable for ", "typeinfo for ", "guard variable for "}) {
    if (name.starts_with(special)) return name;
  }
  std::size_t start = 0;
  for (std::size_t at = 0; at < name.size();) {
    if (const std::string_view rest = name.substr(at); rest.starts_with("operator")) {
      const bool is_own_word = at == 0 || !is_word(name[at - 1]);
      if (is_own_word && (rest.size() == 8 || !is_word(rest[8]))) break;
    }
    if (name[at] == '(' && !is_part_of_name(name.substr(at))) break;
    if (name[at] == '<' || name[at] == '(' || name[at] == '[' || name[at] == '{') {
      if (name[at] == '{') {
        at = std::min(name.find('}', at), name.size() - 1) + 1;
      } else {
        at = end_of_group(name, at);
      }
      continue;
    }
    if (name[at] == ' ') start = at + 1;
    ++at;
  }
  return start < name.size() ? name.substr(start) : name;
}

// "{lambda(int)#1}" stays one part of the name.
std::string without_lambda_parameters(std::string name) {
  for (std::size_t at = name.find("{lambda("); at != std::string::npos;
       at = name.find("{lambda(", at + 1)) {
    const std::size_t open = at + 7;
    const std::size_t end = end_of_group(name, open);
    name.erase(open, end - open);
  }
  return name;
}

// Go's packages have the path that they are imported by: "github.com/x/store.(*Map).Get".
std::string without_import_path(std::string name) {
  const std::size_t slash = name.rfind('/', name.find_first_of("([ "));
  if (slash == std::string::npos || name.find("::") != std::string::npos) return name;
  const std::string_view rest = std::string_view(name).substr(slash + 1);
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == rest.size()) return name;
  return std::string(rest);
}

// Two packages or more in front of a class: "java.util.HashMap.getNode".
std::string without_packages(std::string name) {
  std::size_t packages = 0;
  std::size_t at = 0;
  for (;;) {
    const std::size_t dot = name.find('.', at);
    if (dot == std::string::npos || !is_lower_word(std::string_view(name).substr(at, dot - at))) {
      break;
    }
    ++packages;
    at = dot + 1;
  }
  const bool is_class = packages >= 2 && at < name.size() && is_upper(name[at]);
  return is_class ? name.substr(at) : name;
}

// "Ljava/util/HashMap;getNode(Ljava/lang/Object;)V", as a JVM's agent names it, and
// "...;::getNode".
std::optional<std::string> of_class_signature(std::string_view name) {
  const std::size_t end = name.find(';');
  if (!name.starts_with('L') || end == std::string_view::npos) return std::nullopt;
  const std::string_view path = name.substr(1, end - 1);
  if (path.find_first_of("(<:. ") != std::string_view::npos) return std::nullopt;
  std::string_view method = name.substr(end + 1);
  if (method.starts_with("::")) method.remove_prefix(2);
  const std::size_t open = method.find('(');
  if (open != 0) method = method.substr(0, open);
  if (method.empty()) return std::nullopt;
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1)) + "." +
         std::string(method);
}

}  // namespace

std::string short_name(std::string_view name) {
  if (name.size() > kMaxShortenedBytes || name.starts_with('[')) return std::string(name);
  if (auto method = of_class_signature(name)) return std::move(*method);
  const std::string_view bare = without_return_type(without_rust_hash(name));
  std::string result = shortened_type(without_lambda_parameters(std::string(bare)));
  for (const std::string_view end : {" const", " volatile", " &", " &&"}) {
    if (result.ends_with(end)) result.resize(result.size() - end.size());
  }
  result = without_packages(without_import_path(std::move(result)));
  return result.empty() ? std::string(name) : result;
}

}  // namespace profd
