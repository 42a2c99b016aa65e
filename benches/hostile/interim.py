"""An HTTP server that answers each request with interim responses (1xx) without end. It prints its port."""

import socket
import threading

PART = b"HTTP/1.1 100 Continue\r\n\r\n" * 4000


def answer(connection):
    try:
        connection.recv(1 << 16)
        while True:
            connection.sendall(PART)
    except OSError:
        connection.close()


server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()
