# Debian from a root file system made by mmdebstrap, with the certificate authorities of the build machine (some networks
# have their own), so that the Dockerfiles above it need no changes from the official images.
# Context: rootfs.tar, and ca/ with *.crt (may hold none).
FROM scratch
ADD rootfs.tar /
COPY ca/ /usr/local/share/ca-certificates/
RUN update-ca-certificates > /dev/null 2>&1
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt
CMD ["bash"]
