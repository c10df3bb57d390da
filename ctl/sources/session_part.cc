#include "ctl/sources/session_part.h"

#include <utility>

#include "ctl/sources/pprof_samples.h"
#include "formats/base/errors.h"
#include "formats/profile/pprof_reader.h"

namespace profd {

Result<SessionPart> read_session_part(std::string_view packed) {
  auto protobuf = unpack_pprof(packed);
  if (!protobuf) return error_of(protobuf.error());
  const auto own = find_own_data(*protobuf);
  if (!own) return error_of(own.error());
  auto summary = parse_session_summary(*own);
  if (!summary) return summary.error();
  auto samples = samples_of_pprof(std::move(*protobuf));
  if (!samples) return samples.error();
  return SessionPart{.samples = std::move(*samples), .summary = std::move(*summary)};
}

Result<TakenSession> TakenSession::start(Client& client, const StartRequest& request) {
  auto id = client.start(request);
  if (!id) return id.error();
  return TakenSession(client, std::move(*id));
}

TakenSession::TakenSession(TakenSession&& other) noexcept
    : client_(other.client_), id_(std::exchange(other.id_, {})) {}

// A stop writes the profiles of what is left, so that goes first. After an error here, the lease
// ends the session.
TakenSession::~TakenSession() {
  if (id_.empty()) return;
  (void)client_->take(id_);
  const auto result = client_->stop(id_);
  if (result) (void)client_->remove(result->result);
}

Result<SessionPart> TakenSession::take() {
  const auto packed = client_->take(id_);
  if (packed) return read_session_part(*packed);
  if (packed.error().code == ErrorCode::kInvalidArgument) return take_rest();
  return packed.error();
}

Result<SessionPart> TakenSession::take_rest() {
  const std::string id = std::exchange(id_, {});
  const auto result = client_->stop(id);
  if (!result) return result.error();
  auto packed = result->named_profile
                    ? client_->fetch(result->result, *result->named_profile)
                    : Result<std::string>(fail(ErrorCode::kUnsupported,
                                               "the rest of session " + id + " has no names"));
  (void)client_->remove(result->result);
  if (!packed) return packed.error();
  return read_session_part(*packed);
}

}  // namespace profd
