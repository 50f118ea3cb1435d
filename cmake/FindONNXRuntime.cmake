# Finds ONNX Runtime: ONNXRUNTIME_ROOT (flag or environment) first, else third_party/onnxruntime as
# laid down by tools/setup.sh. Target: onnxruntime::onnxruntime.
set(_ort_hints ${ONNXRUNTIME_ROOT} $ENV{ONNXRUNTIME_ROOT}
               ${PROJECT_SOURCE_DIR}/third_party/onnxruntime)
find_path(ONNXRuntime_INCLUDE_DIR onnxruntime_c_api.h
  HINTS ${_ort_hints} PATH_SUFFIXES include include/onnxruntime include/onnxruntime/core/session)
find_library(ONNXRuntime_LIBRARY NAMES onnxruntime libonnxruntime.so.1
  HINTS ${_ort_hints} PATH_SUFFIXES lib lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNXRuntime
  REQUIRED_VARS ONNXRuntime_LIBRARY ONNXRuntime_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run tools/setup.sh, or pass -DONNXRUNTIME_ROOT=<folder with include/ and lib/>")
if(ONNXRuntime_FOUND AND NOT TARGET onnxruntime::onnxruntime)
  add_library(onnxruntime::onnxruntime SHARED IMPORTED)
  set_target_properties(onnxruntime::onnxruntime PROPERTIES
    IMPORTED_LOCATION ${ONNXRuntime_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONNXRuntime_INCLUDE_DIR})
endif()
