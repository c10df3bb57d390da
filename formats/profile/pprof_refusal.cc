#include "formats/profile/pprof_refusal.h"

#include <array>
#include <string>

#include "formats/base/errors.h"

namespace profd {
namespace {

struct RefusalText {
  std::string_view name;
  std::string_view why;
};
constexpr std::array<RefusalText, kPprofRefusals> kRefusalTexts = {{
    {"too_large", "it is too large"},
    {"too_many_entries", "it has too many entries"},
    {"cut_gzip", "it is cut: its gzip data ends too early"},
    {"bad_gzip", "its gzip data is malformed"},
    {"bad_protobuf", "its protobuf is malformed"},
    {"wrong_type", "a field has a type that profile.proto does not give it"},
    {"no_texts", "it has no string table that begins with an empty string"},
    {"bad_text", "an index lies beyond its string table"},
    {"bad_id", "an id is 0 or is there twice"},
    {"unknown_id", "it refers to an id that no entry has"},
    {"wrong_value_count", "a sample does not have one value for each sample type"},
    {"concatenated", "it is two profiles, one after the other"},
}};

}  // namespace

std::string_view name_of(PprofRefusal refusal) {
  return kRefusalTexts[static_cast<std::size_t>(refusal)].name;
}

Error error_of(PprofRefusal refusal) {
  const bool is_large =
      refusal == PprofRefusal::kTooLarge || refusal == PprofRefusal::kTooManyEntries;
  return fail(is_large ? ErrorCode::kTooLarge : ErrorCode::kMalformed,
              "could not read the pprof profile: " +
                  std::string(kRefusalTexts[static_cast<std::size_t>(refusal)].why),
              refusal == PprofRefusal::kCutGzip ? kCutFileHint : "");
}

}  // namespace profd
