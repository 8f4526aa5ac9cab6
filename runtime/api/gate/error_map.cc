#include "runtime/api/gate/error_map.h"

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/api/gate/json.h"
#include "runtime/base/disk_full.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/quotas.h"
#include "runtime/sandbox/state/terms.h"

namespace atl::api {
namespace {

// Code strings by operation. They are upstream's where upstream has one, because clients may match
// on them.
struct Names {
  const char* invalid;       // kInvalidArgument
  const char* not_found;     // kNotFound
  const char* precondition;  // kFailedPrecondition
  const char* failed;        // all errors of the daemon
};

constexpr Names kNames[kDoings] = {
    /* kCreate */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_IMAGE_NOT_FOUND", "SANDBOX::DELETED",
     "DOCKER::SANDBOX_START_FAILED"},
    /* kFind */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "SANDBOX::INVALID_STATE",
     "DOCKER::SANDBOX_QUERY_FAILED"},
    /* kDelete */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "SANDBOX::INVALID_STATE",
     "DOCKER::SANDBOX_DELETE_FAILED"},
    /* kRenew */
    {"DOCKER::INVALID_EXPIRATION", "DOCKER::SANDBOX_NOT_FOUND", "DOCKER::INVALID_EXPIRATION",
     "SANDBOX::UNKNOWN_ERROR"},
    /* kPause */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "DOCKER::SANDBOX_NOT_RUNNING",
     "DOCKER::SANDBOX_PAUSE_FAILED"},
    /* kResume */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "DOCKER::SANDBOX_NOT_PAUSED",
     "DOCKER::SANDBOX_RESUME_FAILED"},
    /* kPatchMetadata */
    {"SANDBOX::INVALID_METADATA_LABEL", "DOCKER::SANDBOX_NOT_FOUND", "SANDBOX::INVALID_STATE",
     "SANDBOX::UNKNOWN_ERROR"},
    /* kProxy */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "DOCKER::SANDBOX_NOT_RUNNING",
     "BACKEND_CONNECTION_FAILED"},
    /* kReadBody */
    {"GENERAL::INVALID_REQUEST", "GENERAL::UNKNOWN_ERROR", "GENERAL::UNKNOWN_ERROR",
     "GENERAL::UNKNOWN_ERROR"},
    /* kImportImage */
    {"IMAGE::INVALID_ARCHIVE", "IMAGE::NOT_FOUND", "IMAGE::INVALID_STATE", "IMAGE::IMPORT_FAILED"},
    /* kFindImage */
    {"IMAGE::INVALID_NAME", "IMAGE::NOT_FOUND", "IMAGE::INVALID_STATE", "IMAGE::QUERY_FAILED"},
    /* kTagImage */
    {"IMAGE::INVALID_NAME", "IMAGE::NOT_FOUND", "IMAGE::INVALID_STATE", "IMAGE::TAG_FAILED"},
    /* kRemoveImage */
    {"IMAGE::INVALID_NAME", "IMAGE::NOT_FOUND", "IMAGE::IN_USE", "IMAGE::DELETE_FAILED"},
    /* kReadImage */
    {"IMAGE::INVALID_NAME", "IMAGE::NOT_FOUND", "IMAGE::CHANGED", "IMAGE::READ_FAILED"},
    /* kVolume */
    {"VOLUME::INVALID_NAME", "VOLUME::NOT_FOUND", "VOLUME::IN_USE", "VOLUME::FAILED"},
    /* kTakeSnapshot */
    {"GENERAL::INVALID_REQUEST", "DOCKER::SANDBOX_NOT_FOUND", "SNAPSHOT::INVALID_SOURCE_STATE",
     "SNAPSHOT::RUNTIME_CREATE_FAILED"},
    /* kRestore */
    {"SNAPSHOT::INVALID_RESTORE_CONFIG", "SNAPSHOT::NOT_FOUND", "SNAPSHOT::NOT_READY",
     "SNAPSHOT::RUNTIME_CREATE_FAILED"},
    /* kRemoveSnapshot */
    {"GENERAL::INVALID_REQUEST", "SNAPSHOT::NOT_FOUND", "SNAPSHOT::DELETE_CONFLICT",
     "SNAPSHOT::DELETE_FAILED"},
    /* kExportSnapshot */
    {"SNAPSHOT::NOT_EXPORTABLE", "SNAPSHOT::NOT_FOUND", "SNAPSHOT::NOT_READY",
     "SNAPSHOT::EXPORT_FAILED"},
    /* kImportSnapshot */
    {"SNAPSHOT::INVALID_ARCHIVE", "SNAPSHOT::NOT_FOUND", "SNAPSHOT::INVALID_STATE",
     "SNAPSHOT::IMPORT_FAILED"},
    /* kFork */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "SANDBOX::INVALID_STATE",
     "SANDBOX::FORK_FAILED"},
    /* kRollBack */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_NOT_FOUND", "SANDBOX::INVALID_STATE",
     "SANDBOX::ROLLBACK_FAILED"},
    /* kDiff */
    {"SANDBOX::INVALID_PARAMETER", "SNAPSHOT::NOT_FOUND", "SANDBOX::INVALID_STATE",
     "SANDBOX::DIFF_FAILED"},
    /* kBackup */
    {"GENERAL::INVALID_REQUEST", "GENERAL::UNKNOWN_ERROR", "GENERAL::STORE_INCOMPLETE",
     "GENERAL::BACKUP_FAILED"},
    /* kUsage */
    {"GENERAL::INVALID_REQUEST", "GENERAL::UNKNOWN_ERROR", "GENERAL::UNKNOWN_ERROR",
     "GENERAL::USAGE_FAILED"},
    /* kPool: what is not found is its image */
    {"GENERAL::INVALID_REQUEST", "DOCKER::SANDBOX_IMAGE_NOT_FOUND", "KUBERNETES::POOL_IN_USE",
     "KUBERNETES::POOL_API_ERROR"},
    /* kTemplate: what is not found is its image */
    {"SANDBOX::INVALID_PARAMETER", "DOCKER::SANDBOX_IMAGE_NOT_FOUND", "FSB::TEMPLATE_CONFLICT",
     "FSB::API_ERROR"},
    /* kShutdown */
    {"GENERAL::INVALID_REQUEST", "GENERAL::UNKNOWN_ERROR", "GENERAL::UNKNOWN_ERROR",
     "GENERAL::SHUTDOWN_FAILED"},
    /* kKey */
    {"KEY::INVALID", "KEY::NOT_FOUND", "KEY::ENDED", "KEY::FAILED"},
    /* kReadAudit */
    {"GENERAL::INVALID_PARAMETER", "GENERAL::NOT_FOUND", "GENERAL::UNKNOWN_ERROR",
     "GENERAL::UNKNOWN_ERROR"},
};

ApiError Exhausted(const Error& error, Doing doing) {
  if (IsDiskFull(error)) return {507, "GENERAL::STORAGE_FULL", error.message()};
  switch (doing) {
    case Doing::kReadBody:
    case Doing::kImportImage:
    case Doing::kImportSnapshot:
      // A system call failed: not the client's fault.
      if (error.error_number() != 0) {
        return {503, "GENERAL::OUT_OF_RESOURCES", error.message(), 5};
      }
      // The request exceeded a size limit.
      return {413, "GENERAL::TOO_LARGE", error.message()};
    case Doing::kCreate:
    case Doing::kFork:
    case Doing::kRollBack:
      // Either the client sends too many requests, or the host is full. A retry may succeed in both
      // cases.
      if (error.error_number() == 0) return {429, "SANDBOX::TOO_MANY", error.message(), 1};
      return {503, "SANDBOX::OUT_OF_RESOURCES", error.message(), 5};
    default:
      return {503, "GENERAL::OUT_OF_RESOURCES", error.message(), 1};
  }
}

// Upstream's codes for ossfs mounts.
ApiError OfBucket(const Error& error, Doing doing) {
  switch (error.code()) {
    case Code::kPermissionDenied:
      return {400, "VOLUME::INVALID_OSSFS_ENDPOINT", error.message()};
    case Code::kInvalidArgument:
      return {400, "VOLUME::INVALID_OSSFS_BUCKET", error.message()};
    case Code::kFailedPrecondition:
      return {400, "VOLUME::INVALID_OSSFS_CREDENTIALS", error.message()};
    case Code::kNotFound:
      return {400, "VOLUME::OSSFS_PATH_NOT_FOUND", error.message()};
    case Code::kInternal:
    case Code::kDeadlineExceeded:
      return {500, "VOLUME::OSSFS_MOUNT_FAILED", error.message()};
    default:
      return MapError(error, doing);
  }
}

// Returns the refusal by the terms of a tenant, whatever was being done; nothing for other errors.
std::optional<ApiError> RefusedByTerms(const Error& error) {
  if (error.error_number() != sandbox::kByTerms) return std::nullopt;
  if (const auto quota = sandbox::QuotaRefusalOf(error)) {
    return ApiError{403,
                    "KUBERNETES::QUOTA_EXCEEDED",
                    error.message(),
                    0,
                    {{"quota", quota->quota},
                     {"limit", quota->limit},
                     {"used", quota->used},
                     {"asked", quota->asked}}};
  }
  if (error.code() != Code::kPermissionDenied) return std::nullopt;
  return ApiError{403, "TENANT::NOT_ALLOWED", error.message()};
}

}  // namespace

http::Response ErrorResponse(const ApiError& error) {
  nlohmann::json body = {{"code", error.code}, {"message", error.message}};
  for (const auto& [name, text] : error.facts) body[name] = text;
  http::Response response = JsonResponse(error.status, body);
  if (error.retry_after_seconds > 0) {
    response.headers.Set("Retry-After", std::to_string(error.retry_after_seconds));
  }
  return response;
}

ApiError NoSuchSandbox(const std::string& id) {
  return {404, "DOCKER::SANDBOX_NOT_FOUND",
          "sandbox '" + id.substr(0, 64) + "' not found; it may have expired or been deleted"};
}

ApiError NotRunning(const sandbox::Sandbox& sandbox) {
  // The records of an ended sandbox can still be read.
  const bool ended = sandbox::IsOver(sandbox.state);
  return {ended ? 410 : 409, "DOCKER::SANDBOX_NOT_RUNNING",
          "sandbox " + sandbox.id + " is " + std::string(sandbox::StateName(sandbox.state)) + ": " +
              sandbox.message};
}

http::Response EmptyResponse(int status) {
  http::Response response;
  response.status = status;
  return response;
}

ApiError MapError(const Error& error, Doing doing) {
  if (auto refused = RefusedByTerms(error)) return *std::move(refused);
  const Names& names = kNames[static_cast<int>(doing)];
  switch (error.code()) {
    case Code::kInvalidArgument:
      return {400, names.invalid, error.message()};
    case Code::kNotFound:
      return {404, names.not_found, error.message()};
    case Code::kAlreadyExists:
      if (doing == Doing::kPool) {
        return {409, "KUBERNETES::POOL_ALREADY_EXISTS", error.message()};
      }
      return {409, "GENERAL::ALREADY_EXISTS", error.message()};
    case Code::kFailedPrecondition:
      return {409, names.precondition, error.message()};
    case Code::kResourceExhausted:
      return Exhausted(error, doing);
    case Code::kUnimplemented:
      return {501, "SANDBOX::API_NOT_SUPPORTED", error.message()};
    case Code::kUnavailable:
      if (doing == Doing::kProxy) return {502, names.failed, error.message()};
      // The host lacks a feature and will lack it later too, so not 503, which makes clients retry.
      if (error.error_number() == ENOSYS || error.error_number() == EOPNOTSUPP) {
        return {500, names.failed, error.message()};
      }
      return {503, "GENERAL::UNAVAILABLE", error.message(), 1};
    case Code::kDeadlineExceeded:
      return {504, names.failed, error.message()};
    case Code::kPermissionDenied:
      // The operator does not allow the image, or it is not the caller's to remove.
      if (doing == Doing::kPool || doing == Doing::kTemplate || doing == Doing::kRemoveImage) {
        return {403, "IMAGE::NOT_ALLOWED", error.message()};
      }
      [[fallthrough]];
    case Code::kInternal:
      return {500, names.failed, error.message()};
  }
  return {500, names.failed, error.message()};
}

namespace {

ApiError MapRefusedBuild(const sandbox::CreateError& error, Doing doing) {
  if (auto refused = RefusedByTerms(error)) return *std::move(refused);
  if (error.snapshot) {
    ApiError mapped = MapError(static_cast<const Error&>(error), Doing::kRestore);
    // The request is well-formed, but the snapshot that it names has changed.
    if (error.code() == Code::kInvalidArgument) mapped.status = 409;
    return mapped;
  }
  if (error.image && error.code() == Code::kPermissionDenied) {
    return {403, "IMAGE::NOT_ALLOWED", error.message()};
  }
  if (error.isolation && error.code() == Code::kPermissionDenied) {
    return {403, "SANDBOX::ISOLATION_NOT_ALLOWED", error.message()};
  }
  if (error.from_template && error.code() == Code::kNotFound) {
    return {404, "FSB::TEMPLATE_NOT_FOUND", error.message()};
  }
  if (error.from_template && error.code() == Code::kUnavailable) {
    return {503, "FSB::API_ERROR", error.message(), 5};
  }
  if (error.pool && error.code() == Code::kNotFound) {
    return {404, "KUBERNETES::POOL_NOT_FOUND", error.message()};
  }
  if (error.pool && error.code() == Code::kResourceExhausted) {
    return {429, "KUBERNETES::POOL_CAPACITY_EXHAUSTED", error.message(), 1};
  }
  if (!error.volume) return MapError(static_cast<const Error&>(error), doing);
  if (error.volume == wire::Volume::Kind::kObjects) return OfBucket(error, doing);
  switch (error.code()) {
    case Code::kPermissionDenied:
      return {400, "VOLUME::HOST_PATH_NOT_ALLOWED", error.message()};
    case Code::kNotFound:
      return {400, "VOLUME::PVC_NOT_FOUND", error.message()};
    case Code::kInvalidArgument:
      return {400, "VOLUME::INVALID_SUB_PATH", error.message()};
    case Code::kInternal:
      return {500,
              error.volume == wire::Volume::Kind::kHost ? "VOLUME::HOST_PATH_CREATE_FAILED"
                                                        : "VOLUME::PVC_INSPECT_FAILED",
              error.message()};
    default:
      return MapError(static_cast<const Error&>(error), Doing::kVolume);
  }
}

}  // namespace

ApiError NamedForCreate(ApiError error) {
  switch (error.status) {
    case 400:
    case 403:
    case 409:
    case 429:
    case 500:
      return error;
    case 503:
      // 429 is the only status of a create whose Retry-After clients obey.
      error.status = 429;
      return error;
    default:
      error.status = error.status < 500 || error.status == 501 ? 400 : 500;
      return error;
  }
}

ApiError MapError(const sandbox::CreateError& error, Doing doing) {
  ApiError mapped = MapRefusedBuild(error, doing);
  return doing == Doing::kCreate ? NamedForCreate(std::move(mapped)) : mapped;
}

}  // namespace atl::api
