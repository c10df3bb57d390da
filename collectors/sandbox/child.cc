#include "collectors/sandbox/child.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>

#include <malloc.h>

#include "collectors/sandbox/privileges.h"

namespace profd::sandbox {
namespace {

bool send_answer(int socket, const Result<std::string>& result) {
  const Result<UniqueFd> sealed = result ? make_sealed(*result) : Result<UniqueFd>(result.error());
  if (!sealed) return send_packet(socket, bytes_of(answer_of(sealed.error())));
  const int fd = sealed->get();
  return send_packet(socket, bytes_of(Answer{}), {&fd, 1});
}

// None where the other side has closed the socket, or sends something else than a request.
std::optional<Request> next_request(int socket, std::vector<UniqueFd>& files) {
  Request request;
  auto received = receive_packet(socket, buffer_of(request));
  if (!received || received->bytes != sizeof request) return std::nullopt;
  files = std::move(received->descriptors);
  return request;
}

// Drops the privileges as the first request says.
bool enter_sandbox(int socket, const LibraryRules& rules) {
  std::vector<UniqueFd> files;
  const auto request = next_request(socket, files);
  if (!request) return false;
  Result<std::string> entered = std::string();
  if (request->operation != kStart) {
    entered = fail(ErrorCode::kInternal, "the first request does not set the limits");
  } else if (auto dropped = drop_privileges(
                 {.memory_bytes = request->words[0], .file_bytes = request->words[1]}, rules);
             !dropped) {
    entered = dropped.error();
  }
  return send_answer(socket, entered) && entered;
}

// False after the time. The other side's end of the socket being closed counts as a request.
bool wait_for_request(int socket, std::chrono::milliseconds limit) {
  pollfd request{.fd = socket, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&request, 1, static_cast<int>(limit.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

Result<std::string> handle_in_bounds(const Handler& handle, const Request& request,
                                     const std::vector<UniqueFd>& files) {
  try {
    return handle(request, files);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "the file needs more memory than the limit allows");
  }
}

}  // namespace

void run_as_child(int argc, char** argv, std::initializer_list<ChildKind> kinds) {
  if (argc != 2) return;
  const std::string_view argument = argv[1];
  const auto* const kind = std::ranges::find_if(kinds, [argument](const ChildKind& known) {
    return argument.starts_with("--") && argument.substr(2) == known.name;
  });
  if (kind == kinds.end()) return;
  ::prctl(PR_SET_NAME, kind->process_name);  // else "exe", from /proc/self/exe
  if (!enter_sandbox(kChildSocket, kind->rules)) ::_exit(1);
  kind->run(kChildSocket);
  // A normal exit may need system calls that are forbidden now.
  ::_exit(0);
}

void serve_requests(int socket, const Handler& handle, std::chrono::milliseconds idle_limit) {
  while (wait_for_request(socket, idle_limit)) {
    std::vector<UniqueFd> files;
    const auto request = next_request(socket, files);
    if (!request || !send_answer(socket, handle_in_bounds(handle, *request, files))) return;
    // The daemon has its answer. What one file took is not kept for the next.
    ::malloc_trim(0);  // of glibc; jemalloc keeps nothing (spawn.cc)
  }
}

}  // namespace profd::sandbox
