// A part of the samples of a session that runs: what `take` gives, or the rest at its end.

#pragma once

#include <string>

#include "ctl/client/client.h"
#include "ctl/views/samples.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

struct SessionPart {
  Samples samples;
  SessionSummary summary;  // the profiles are not listed
};

// `packed` is the profile.proto (.pb.gz) that the daemon sent. kMalformed: it is no part.
[[nodiscard]] Result<SessionPart> read_session_part(std::string_view packed);

// A running session, whose samples are taken part by part. It ends with this object, and the daemon
// keeps nothing of it.
class TakenSession {
 public:
  // `client` must outlive the session.
  [[nodiscard]] static Result<TakenSession> start(Client& client, const StartRequest& request);

  TakenSession(TakenSession&& other) noexcept;
  TakenSession& operator=(TakenSession&&) = delete;
  ~TakenSession();

  // The samples since the last call. The rest of a session that has ended, since its targets have,
  // comes with the last call: has_ended() is true then.
  [[nodiscard]] Result<SessionPart> take();
  [[nodiscard]] bool has_ended() const { return id_.empty(); }

 private:
  TakenSession(Client& client, std::string id) : client_(&client), id_(std::move(id)) {}
  [[nodiscard]] Result<SessionPart> take_rest();

  Client* client_;
  std::string id_;  // empty: it has ended
};

}  // namespace profd
