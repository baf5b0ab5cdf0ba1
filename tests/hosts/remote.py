"""A launch agent that connects through the network of the hosts, like ssh: the connection ends with the link.

remote.py serve ADDRESS          on a host: runs the commands that it receives
remote.py call HOST COMMAND...   runs COMMAND on a host of $HOSTS, with this process's standard input and output
"""

import json
import os
import socket
import subprocess
import sys
import threading

PORT = 7070


def serve(address):
    with socket.create_server((address, PORT)) as server:
        while True:
            connection, _ = server.accept()
            words = b""
            while not words.endswith(b"\n"):
                words += connection.recv(1)
            subprocess.Popen(json.loads(words), stdin=connection, stdout=connection)
            connection.close()


def call(host, command):
    address = f"10.77.0.{os.environ['HOSTS'].split(',').index(host) + 1}"
    with socket.create_connection((address, PORT)) as connection:
        connection.sendall(json.dumps(command).encode() + b"\n")

        def send():
            while data := os.read(0, 65536):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=send, daemon=True).start()
        while data := connection.recv(65536):
            os.write(1, data)


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    call(sys.argv[2], sys.argv[3:])
