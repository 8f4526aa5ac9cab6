// A log that is sent to a client as it grows, until the sandbox ends or the client goes.
#pragma once

#include <memory>
#include <string>

#include "runtime/http/server.h"
#include "runtime/sandbox/output/entrypoint_logs.h"

namespace atl::api {

// `reader` has been made for following and not been used. `coming`: see EntrypointLogs::Watch.
// A client that reads slowly is waited for; what it missed meanwhile is read from the files.
void FollowLog(sandbox::EntrypointLogs& logs, const std::string& id, bool coming,
               std::shared_ptr<sandbox::LogReader> reader,
               std::shared_ptr<http::ResponseStream> stream);

// Sends what the log holds now, a part at a time, and ends the stream. `reader` as above.
void SendLog(sandbox::EntrypointLogs& logs, const std::string& id,
             std::shared_ptr<sandbox::LogReader> reader,
             std::shared_ptr<http::ResponseStream> stream);

}  // namespace atl::api
