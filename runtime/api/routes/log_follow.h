// Sends a log to a client, either as it grows or once.
#pragma once

#include <memory>
#include <string>

#include "runtime/http/server.h"
#include "runtime/sandbox/output/entrypoint_logs.h"

namespace atl::api {

// Sends the log until the sandbox ends or the client disconnects. `reader` was made for following
// and is unused. `coming` is that of EntrypointLogs::Watch. A slow client is waited for; the output
// that it missed meanwhile is read from the files.
void FollowLog(sandbox::EntrypointLogs& logs, const std::string& id, bool coming,
               std::shared_ptr<sandbox::LogReader> reader,
               std::shared_ptr<http::ResponseStream> stream);

// Sends the present log in parts and ends the stream. `reader` as above.
void SendLog(sandbox::EntrypointLogs& logs, const std::string& id,
             std::shared_ptr<sandbox::LogReader> reader,
             std::shared_ptr<http::ResponseStream> stream);

}  // namespace atl::api
