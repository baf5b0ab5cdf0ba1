//! A body cannot swap the buffers of two packets: one of them would be written after its packet was sent.
#![forbid(unsafe_code)]
use am_core::buffer::{InlineBytes, PacketWriter};
use am_core::fabric::{Class, Post};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::transfer::Body;
use am_double::{Config, Double, network};

struct Outer(Double);

impl Body for Outer {
    fn len(&self) -> usize {
        64
    }

    fn write(&mut self, writer: &mut PacketWriter) -> am_core::error::Result<()> {
        let to = Endpoint::new(TaskId(0), ContextNumber(0));
        let to = self.0.peer(to).unwrap().index;
        self.0
            .post_packet(
                to,
                Class::OneWay,
                0,
                &InlineBytes::new(),
                &mut Inner(&mut |other| std::mem::swap(writer, other)),
            )
            .unwrap();
        writer.put_slice(&[1; 64]);
        Ok(())
    }
}

struct Inner<'a>(&'a mut dyn FnMut(&mut PacketWriter));

impl Body for Inner<'_> {
    fn len(&self) -> usize {
        64
    }

    fn write(&mut self, writer: &mut PacketWriter) -> am_core::error::Result<()> {
        self.0(writer);
        Ok(())
    }
}

fn main() {
    let mut one = network(Config::new(1)).1.remove(0);
    let other = network(Config::new(1)).1.remove(0);
    let to = Endpoint::new(TaskId(0), ContextNumber(0));
    let to = one.peer(to).unwrap().index;
    one.post_packet(to, Class::OneWay, 0, &InlineBytes::new(), &mut Outer(other)).unwrap();
}
