#include "ctl/doctor/program_child.h"

#include <string>
#include <utility>
#include <vector>

#include "collectors/sandbox/client.h"
#include "ctl/doctor/program_checks.h"

namespace profd {
namespace {

constexpr std::uint32_t kCheckProgram = 1;

// The largest string tables of programs are read whole.
constexpr sandbox::ChildLimits kLimits{.memory_bytes = std::uint64_t{256} << 20,
                                       .answer_bytes = std::uint64_t{64} << 10};

Result<std::string> answer_of(const sandbox::Request& request, const std::vector<UniqueFd>& files) {
  if (request.operation != kCheckProgram || files.size() != 1) {
    return fail(ErrorCode::kInternal, "unknown request");
  }
  const int program = files.front().get();
  CheckReport report = check_program(program);
  auto instrumentation = check_instrumentation(request.words[0] != 0, program);
  if (instrumentation) report.push_back(std::move(*instrumentation));
  return to_json(report);
}

Result<CheckReport> request_check(bool runs_library, int program, sandbox::Spawn spawn) {
  if (!spawn) spawn = [](int socket) { return sandbox::spawn_child(kProgramCheckChild, socket); };
  const auto client =
      sandbox::Client::start(std::string(kProgramCheckChild.name), kLimits, std::move(spawn));
  if (!client) return client.error();
  const auto answer = (*client)->call(
      {.operation = kCheckProgram, .words = {runs_library ? 1U : 0U, 0}}, {&program, 1});
  if (!answer) return answer.error();
  return parse_check_report(*answer);
}

}  // namespace

const sandbox::ChildKind kProgramCheckChild{
    .name = "program-check", .process_name = "profctl-check", .run = [](int socket) {
      sandbox::serve_requests(socket, answer_of);
    }};

CheckReport check_program_in_child(bool runs_library, int program, sandbox::Spawn spawn) {
  auto report = request_check(runs_library, program, std::move(spawn));
  if (report) return std::move(*report);
  return {{"unwinding", CheckState::kUnknown,
           "the program's file could not be read: " + report.error().message,
           "its file may be malformed: readelf -hlS shows what is in it"}};
}

}  // namespace profd
