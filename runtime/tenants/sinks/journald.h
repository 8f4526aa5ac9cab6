// Sends lines to systemd's journal by its native protocol, with fields to search for:
// journalctl ATOLL_ACTION=sandbox.delete
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/tenants/sinks/sink.h"

namespace atl::sinks {

inline constexpr char kJournalSocket[] = "/run/systemd/journal/socket";

Result<std::unique_ptr<Sink>> MakeJournald(const std::string& socket = kJournalSocket);

}  // namespace atl::sinks
