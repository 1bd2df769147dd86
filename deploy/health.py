"""Check whether a service of this container responds: exit code 0, or 1 with the reason on one line.

Dagster's own `grpc-health-check` loads Dagster, which costs seconds of processor time at each call.
"""

import argparse
import sys
import urllib.request

LIMIT_S = 5.0


def check_code(address: str) -> None:
    """Ask the gRPC server for its health."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service="DagsterApi")
        reply = health_pb2_grpc.HealthStub(channel).Check(request, timeout=LIMIT_S)
    if reply.status != health_pb2.HealthCheckResponse.SERVING:
        raise OSError(f"the code server at {address} says {reply.status}")


def check_webserver(address: str) -> None:
    """Ask the webserver for its version."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is here, whatever proxy is set
    opener.open(f"http://{address}/server_info", timeout=LIMIT_S).close()


SERVICES = {"code": check_code, "webserver": check_webserver}


def main() -> int:
    """Check one service."""
    arguments = argparse.ArgumentParser(description="Whether a service of this container answers.")
    arguments.add_argument("service", choices=SERVICES)
    arguments.add_argument("address", help="host:port")
    options = arguments.parse_args()
    try:
        SERVICES[options.service](options.address)
    except Exception as error:  # gRPC's own class is loaded only where it is needed
        print(f"{options.service}: {' '.join(str(error).split())[:200]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
