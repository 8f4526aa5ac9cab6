// Lines of the audit log in the forms of other programs.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::cli {

// Returns an event of OCSF 1.3 as one line of JSON: Process Activity for exec.*, File System
// Activity for file.*, Authentication for login.*, else API Activity. kInvalidArgument: the line is
// not one of the audit log.
Result<std::string> OcsfEvent(std::string_view line);

// The columns of CsvRow.
inline constexpr char kCsvHeading[] =
    "seq,time,action,outcome,status,tenant,actor,role,ip,agent,target_kind,target,image,request,"
    "what";
// Returns a row by RFC 4180. A text that a spreadsheet would take for a formula gets a ' in front.
Result<std::string> CsvRow(std::string_view line);

}  // namespace atl::cli
