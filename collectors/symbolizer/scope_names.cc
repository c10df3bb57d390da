#include "collectors/symbolizer/scope_names.h"

#include <dwarf.h>

#include <string.h>

#include "formats/symbols/code_names.h"

namespace profd::symbolizer {
namespace {

constexpr std::size_t kMaxScopes = 10'000;
constexpr int kMaxOrigins = 16;  // an entry may be its own origin

bool go_to_origin(Dwarf_Die& entry) {
  Dwarf_Attribute attribute{};
  for (const unsigned name : {DW_AT_abstract_origin, DW_AT_specification}) {
    Dwarf_Die origin{};
    if (::dwarf_formref_die(::dwarf_attr(&entry, name, &attribute), &origin) == nullptr) continue;
    entry = origin;
    return true;
  }
  return false;
}

}  // namespace

ScopeNames::Scope ScopeNames::add_namespace(Dwarf_Die& entry, Scope outer) {
  const char* const given = ::dwarf_diename(&entry);
  const char* const name = given == nullptr ? "(anonymous namespace)" : given;
  const std::size_t bytes = ::strnlen(name, kMaxCodeNameBytes);
  if (prefixes_.size() >= kMaxScopes || prefixes_[outer].size() + bytes >= kMaxCodeNameBytes) {
    return outer;
  }
  prefixes_.push_back(prefixes_[outer] + std::string(name, bytes) + "::");
  return static_cast<Scope>(prefixes_.size() - 1);
}

// The first declaration counts: a member of a class may be defined in the namespace around it.
// An offset stands for another entry in another file, and for one that was not added in another
// unit.
std::string_view ScopeNames::prefix_of(const Dwarf_Die& function) const {
  Dwarf_Die entry = function;
  for (int i = 0; i < kMaxOrigins && go_to_origin(entry); ++i) {
  }
  if (entry.cu != function.cu) return {};
  const auto found = scopes_.find(::dwarf_dieoffset(&entry));
  return found == scopes_.end() ? std::string_view() : prefixes_[found->second];
}

}  // namespace profd::symbolizer
