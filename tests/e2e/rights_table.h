// Who may do what: every route of the control socket, by every kind of caller, on everything that
// it may be about.

#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

namespace profd::e2e {

struct Who {
  const char* name;
  uid_t uid;
  bool member = false;         // of group profd
  bool own_namespace = false;  // root there, `uid` outside
};

// In the order of the table's columns.
inline constexpr std::array kCallers = {
    Who{.name = "root", .uid = 0},
    Who{.name = "member", .uid = 4711, .member = true},
    Who{.name = "plain", .uid = 4712},
    Who{.name = "nobody", .uid = 65534},
    Who{.name = "last user", .uid = 0xffff'fffe},  // the largest uid
    Who{.name = "remote root", .uid = 4714, .own_namespace = true},
};
inline constexpr std::size_t kPlain = 2;

struct Row {
  const char* route;  // as route_names() has it, with ID and PATH
  const char* about;  // "own" or "another's": whose session or result ID is; else what it says
  const char* body;   // with the words OWN_PID, ...; of a GET, the query
  std::array<int, kCallers.size()> status;  // by caller
};

// root, member of group profd, plain user, nobody, the last user, root of another user namespace.
//
// The last one is, to profd, the user that it is outside: with that user's sessions. Its processes
// are refused, since profd can't tell who owns their namespace; by a name or a user id none of them
// is sampled, so it has results without files.
inline constexpr Row kTable[] = {
    {"GET /v1/status", "", "", {200, 200, 200, 200, 200, 200}},
    {"GET /metrics", "", "", {200, 200, 200, 200, 200, 200}},
    {"GET /v1/config", "", "", {200, 200, 403, 403, 403, 403}},

    {"POST /v1/sessions",
     "own process",
     R"({"target":{"pids":[OWN_PID]}})",
     {201, 201, 201, 201, 201, 403}},
    {"POST /v1/sessions",
     "another's process",
     R"({"target":{"pids":[OTHERS_PID]}})",
     {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions",
     "own and another's",
     R"({"target":{"pids":[OWN_PID,OTHERS_PID]}})",
     {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions",
     "own set-uid process",
     R"({"target":{"pids":[SETUID_PID]}})",
     {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions",
     "own process, not dumpable",
     R"({"target":{"pids":[HIDDEN_PID]}})",
     {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions", "all", R"({"target":{"all":true}})", {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions",
     "own user",
     R"({"target":{"uids":[OWN_UID]}})",
     {201, 201, 201, 201, 201, 201}},
    {"POST /v1/sessions",
     "another user",
     R"({"target":{"uids":[4799]}})",
     {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions", "root's", R"({"target":{"uids":[0]}})", {201, 201, 403, 403, 403, 403}},
    {"POST /v1/sessions",
     "a name, cut down to own",
     R"({"target":{"comms":["shares"]}})",
     {201, 201, 201, 201, 201, 201}},
    {"POST /v1/sessions",
     "a cgroup, cut down to own",
     R"({"target":{"cgroups":["/"]}})",
     {201, 201, 201, 201, 201, 201}},
    {"POST /v1/sessions",
     "a rate that is dear to others",
     R"({"target":{"comms":["shares"]},"frequency":2000})",
     {201, 201, 403, 403, 403, 403}},

    {"GET /v1/sessions", "", "", {200, 200, 200, 200, 200, 200}},
    {"GET /v1/sessions/ID", "own", "", {200, 200, 200, 200, 200, 200}},
    {"GET /v1/sessions/ID", "another's", "", {200, 200, 403, 403, 403, 403}},
    {"GET /v1/sessions/ID", "nobody's", "", {404, 404, 404, 404, 404, 404}},
    {"POST /v1/sessions/ID/dump", "own", "", {200, 200, 200, 200, 200, 200}},
    {"POST /v1/sessions/ID/dump", "another's", "", {200, 200, 403, 403, 403, 403}},
    {"POST /v1/sessions/ID/dump", "nobody's", "", {404, 404, 404, 404, 404, 404}},
    {"POST /v1/sessions/ID/take", "own", "", {200, 200, 200, 200, 200, 200}},
    {"POST /v1/sessions/ID/take", "another's", "", {200, 200, 403, 403, 403, 403}},
    {"POST /v1/sessions/ID/take", "nobody's", "", {404, 404, 404, 404, 404, 404}},
    {"POST /v1/sessions/ID/stop", "own", "", {200, 200, 200, 200, 200, 200}},
    {"POST /v1/sessions/ID/stop", "another's", "", {200, 200, 403, 403, 403, 403}},
    {"POST /v1/sessions/ID/stop", "nobody's", "", {404, 404, 404, 404, 404, 404}},

    {"POST /v1/history", "all windows", "{}", {200, 200, 200, 200, 200, 200}},
    {"GET /v1/history/last", "the last window", "", {200, 200, 200, 200, 200, 200}},
    {"GET /v1/windows", "", "", {200, 200, 200, 200, 200, 200}},
    {"GET /v1/windows/ID", "the newest window", "", {200, 200, 200, 200, 200, 404}},
    {"GET /debug/pprof/profile", "", "seconds=1", {200, 200, 200, 200, 200, 200}},
    {"POST /v1/exports",
     "own process",
     R"({"target":{"pids":[OWN_PID]}})",
     {200, 200, 200, 200, 200, 404}},
    {"POST /v1/exports",
     "another's process, which is none to others",
     R"({"target":{"pids":[OTHERS_PID]}})",
     {200, 200, 404, 404, 404, 404}},

    {"GET /v1/results/ID/files/PATH", "own", "", {200, 200, 200, 200, 200, 404}},
    {"GET /v1/results/ID/files/PATH", "another's", "", {200, 200, 403, 403, 403, 403}},
    {"GET /v1/results/ID/files/PATH", "nobody's", "", {404, 404, 404, 404, 404, 404}},
    {"DELETE /v1/results/ID", "own", "", {204, 204, 204, 204, 204, 204}},
    {"DELETE /v1/results/ID", "another's", "", {204, 204, 403, 403, 403, 403}},
    {"DELETE /v1/results/ID", "nobody's", "", {404, 404, 404, 404, 404, 404}},
};

}  // namespace profd::e2e
