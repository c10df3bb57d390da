// Any bytes as an answer of a child process that reads what other users write: it counts as hostile
// as what it read. The first byte says which answer. What decodes is encoded again, and decodes to
// the same.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/parser/messages.h"
#include "collectors/symbolizer/messages.h"
#include "tests/fuzz/require.h"

namespace {

using namespace profd;

template <class Answer>
void check(std::string_view bytes) {
  const auto answer = sandbox::decode<Answer>(bytes);
  if (!answer) return;
  const std::string encoded = sandbox::encode(*answer);
  require(encoded.size() == bytes.size(), "all bytes were read");
  const auto again = sandbox::decode<Answer>(encoded);
  require(again.has_value(), "what was encoded decodes");
  require(sandbox::encode(*again) == encoded, "it decodes to the same");
}

// As the daemon asks its children.
constexpr std::array kAnswers{
    check<UnwindSource>,
    check<ElfSummary>,
    check<parser::FoundSymbols>,
    check<parser::FoundCodeNames>,
    check<parser::MatchedDebugFile>,
    check<JitDumpChunk>,
    check<PerfMapChunk>,
    check<JitCodeAnswers>,
    check<JitUnwindAnswers>,
    check<AltLink>,
    check<std::vector<DwarfAddress>>,
    check<FoundRuntime>,
    check<DecodedCodes>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  kAnswers.at(data[0] % kAnswers.size())(bytes);
  return 0;
}
